"""Dead letters: as declared, always the same for the same record, and without its content."""

import hashlib
import json
from types import SimpleNamespace
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from config.declarations import topics
from streaming.kafka.dead_letter import dead_letter


def record(offset: int = 7, timestamp: int = 1_767_571_200_123, value: bytes | None = b"\xff\x00") -> Any:
    return SimpleNamespace(topic="clicks_raw", partition=2, offset=offset, timestamp=timestamp, value=value)


def test_a_dead_letter_is_as_declared_and_always_the_same():
    letter = json.loads(dead_letter(record(), "unreadable: not JSON"))
    Draft202012Validator(topics()["dead_letter"].events).validate(letter)
    assert letter == json.loads(dead_letter(record(), "unreadable: not JSON"))
    assert letter["event_id"] != json.loads(dead_letter(record(8), ""))["event_id"]
    assert letter["event_time"] == "2026-01-05T00:00:00.123Z"
    assert letter["origin"] == {"topic": "clicks_raw", "partition": 2, "offset": 7}


@pytest.mark.parametrize("value", [None, b"", b"ada@example.com", b"x" * 1_048_000])
def test_a_dead_letter_identifies_its_record_without_its_content(value: bytes | None):
    letter = dead_letter(record(value=value), "unreadable: not JSON")
    assert set(json.loads(letter)) == set(topics()["dead_letter"].events["required"])
    assert json.loads(letter)["bytes"] == len(value or b"")
    assert json.loads(letter)["sha256"] == hashlib.sha256(value or b"").hexdigest()
    assert len(letter) < 1_000


@pytest.mark.parametrize("timestamp", [-1, 0, 2**62])
def test_a_dead_letter_can_be_written_of_any_time(timestamp: int):
    Draft202012Validator(topics()["dead_letter"].events).validate(
        json.loads(dead_letter(record(timestamp=timestamp), ""))
    )
