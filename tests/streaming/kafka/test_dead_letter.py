"""Dead letters: as declared, always the same for the same record, and never too large."""

import base64
import json
from types import SimpleNamespace
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from config.declarations import topics
from streaming.kafka.dead_letter import dead_letter


def record(offset: int = 7, timestamp: int = 1_767_571_200_123) -> Any:
    return SimpleNamespace(topic="clicks_raw", partition=2, offset=offset, timestamp=timestamp)


def test_a_dead_letter_is_as_declared_and_always_the_same():
    letter = json.loads(dead_letter(record(), "unreadable: not JSON", b"\xff\x00", 10_000))
    Draft202012Validator(topics()["dead_letter"].events).validate(letter)
    assert letter == json.loads(dead_letter(record(), "unreadable: not JSON", b"\xff\x00", 10_000))
    assert letter["event_id"] != json.loads(dead_letter(record(8), "", b"", 10_000))["event_id"]
    assert letter["event_time"] == "2026-01-05T00:00:00.123Z"
    assert letter["origin"] == {"topic": "clicks_raw", "partition": 2, "offset": 7}
    assert base64.b64decode(letter["value"]) == b"\xff\x00"


def test_a_dead_letter_fits_however_large_the_record_was():
    letter = dead_letter(record(), "unreadable: not JSON", b"x" * 1_048_000, 1_000_000)
    assert len(letter) <= 1_000_000
    assert "of 1,048,000 bytes" in json.loads(letter)["reason"]


@pytest.mark.parametrize("timestamp", [-1, 0, 2**62])
def test_a_dead_letter_can_be_written_of_any_time(timestamp: int):
    Draft202012Validator(topics()["dead_letter"].events).validate(
        json.loads(dead_letter(record(timestamp=timestamp), "", b"", 10_000))
    )
