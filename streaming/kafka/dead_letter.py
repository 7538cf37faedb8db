"""Dead letters: a record that a role could not use, the reason and its origin -> the value of a dead letter."""

import json
from base64 import b64encode
from datetime import UTC, datetime
from uuid import UUID, uuid5

from streaming.kafka.consumer import Record

_NAMESPACE = UUID("0d5e2a5c-7f0e-4b0e-9a53-5d3f4a6f8f11")
_LAST_MS = 253_402_300_799_999  # the end of the year 9999: a producer may stamp its records with anything


def dead_letter(record: Record, reason: str, value: bytes, most_bytes: int) -> bytes:
    """Write a dead letter of at most so many bytes; its id follows from its origin, so that it is always the same.

    A value that was read comes without personal data. One that was not read comes as it was, as far as it has room.
    """
    room = (most_bytes - 1024) // 4 * 3  # base64 makes four bytes of three; the rest is for what stands around it
    if len(value) > room:
        reason, value = f"{reason} (the first {room:,} of {len(value):,} bytes)", value[:room]
    letter = {
        "event_id": uuid5(_NAMESPACE, f"{record.topic}/{record.partition}/{record.offset}").hex,
        "type": "dead_letter",
        "event_time": _written(record.timestamp),
        "schema_version": 1,
        "reason": reason,
        "origin": {"topic": record.topic, "partition": record.partition, "offset": record.offset},
        "value": b64encode(value).decode(),
    }
    return json.dumps(letter, separators=(",", ":")).encode()


def _written(time_ms: int) -> str:
    seconds, rest = divmod(min(max(time_ms, 0), _LAST_MS), 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:03d}Z"
