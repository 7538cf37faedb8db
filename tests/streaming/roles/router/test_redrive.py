"""Redrive of dead letters, without Kafka: which letters are open, and which offsets are read together."""

import json
from typing import Any

import pytest

from streaming.kafka.dead_letter import REDRIVEN
from streaming.roles.router.redrive import _apply, _parsed, _runs


def letter(offset: int, reason: str = "unreadable: not JSON", topic: str = "clicks_raw") -> dict[str, Any]:
    return {"reason": reason, "origin": {"topic": topic, "partition": 1, "offset": offset}, "sha256": f"hash {offset}"}


def test_the_last_letter_of_a_record_says_how_it_stands():
    found: dict[tuple[int, int], str] = {}
    for each in (letter(1), letter(2), letter(3, topic="payments"), letter(1, REDRIVEN + "to clicks"), {}):
        _apply(each, found)
    assert found == {(1, 2): "hash 2"}
    _apply(letter(1), found)
    assert set(found) == {(1, 1), (1, 2)}


@pytest.mark.parametrize("value", [None, b"", b"{", b"[]", b"1", b"\xff"])
def test_what_is_no_letter_is_passed(value: bytes | None):
    assert _parsed(value) == {}
    assert _parsed(json.dumps({"a": 1}).encode()) == {"a": 1}


def test_offsets_within_reach_are_read_together():
    assert _runs([], 10) == []
    assert _runs([5], 10) == [(5, 5)]
    assert _runs([5, 15, 16, 27], 10) == [(5, 16), (27, 27)]
