"""Dead letters: a record that a role could not process -> the value of its dead letter, with reason and origin.

A dead letter never contains the record, which may be anything, personal data included, while dead letters are kept
forever. Its bytes stay where they came from, at `origin`, for as long as that topic keeps them; the hash and the length
show whether the record found there is the same.

A record that was routed again after a fix gets a second dead letter, with the same id and a reason that says so. The
last dead letter of an id therefore has the record's current state.
"""

import hashlib
import json
from datetime import UTC, datetime
from uuid import UUID, uuid5

from streaming.kafka.consumer import Record

_NAMESPACE = UUID("0d5e2a5c-7f0e-4b0e-9a53-5d3f4a6f8f11")
_LAST_MS = 253_402_300_799_999  # the end of the year 9999; a producer may set any timestamp

REDRIVEN = "redriven: "
"""How the reason begins of a dead letter that says that its record is none any more."""


def dead_letter(record: Record, reason: str) -> bytes:
    """Build the dead letter of a record; its id is derived from its origin, so it is always the same."""
    value = record.value or b""
    letter = {
        "event_id": uuid5(_NAMESPACE, f"{record.topic}/{record.partition}/{record.offset}").hex,
        "type": "dead_letter",
        "event_time": _iso_time(record.timestamp),
        "schema_version": 2,
        "reason": reason,
        "origin": {"topic": record.topic, "partition": record.partition, "offset": record.offset},
        "sha256": hashlib.sha256(value).hexdigest(),
        "bytes": len(value),
    }
    return json.dumps(letter, separators=(",", ":")).encode()


def _iso_time(time_ms: int) -> str:
    seconds, milliseconds = divmod(min(max(time_ms, 0), _LAST_MS), 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{milliseconds:03d}Z"
