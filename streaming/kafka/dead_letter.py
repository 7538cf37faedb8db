"""Dead letters: a record that a role could not process -> the value of its dead letter, with reason and origin."""

import json
from base64 import b64encode
from datetime import UTC, datetime
from uuid import UUID, uuid5

from streaming.kafka.consumer import Record

_NAMESPACE = UUID("0d5e2a5c-7f0e-4b0e-9a53-5d3f4a6f8f11")
_LAST_MS = 253_402_300_799_999  # the end of the year 9999; a producer may set any timestamp


def dead_letter(record: Record, reason: str, value: bytes, max_bytes: int) -> bytes:
    """Build a dead letter of at most `max_bytes`; its id is derived from its origin, so it is always the same.

    value: redacted if the record could be parsed, else the raw bytes; it is cut if it is too long.
    """
    room = (max_bytes - 1024) // 4 * 3  # base64 turns three bytes into four; 1,024 bytes are for the other fields
    if len(value) > room:
        reason, value = f"{reason} (the first {room:,} of {len(value):,} bytes)", value[:room]
    letter = {
        "event_id": uuid5(_NAMESPACE, f"{record.topic}/{record.partition}/{record.offset}").hex,
        "type": "dead_letter",
        "event_time": _iso_time(record.timestamp),
        "schema_version": 1,
        "reason": reason,
        "origin": {"topic": record.topic, "partition": record.partition, "offset": record.offset},
        "value": b64encode(value).decode(),
    }
    return json.dumps(letter, separators=(",", ":")).encode()


def _iso_time(time_ms: int) -> str:
    seconds, milliseconds = divmod(min(max(time_ms, 0), _LAST_MS), 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{milliseconds:03d}Z"
