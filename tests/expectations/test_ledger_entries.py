"""The ledger's entries against each other: no offset is counted twice."""

from typing import Any

import pytest

from expectations.ledger_entries import are_disjoint


def entry(batch: int, low: int, high: int, partition: int = 0) -> dict[str, Any]:
    batch_of = {"epoch": 1, "batch": batch, "topic": "clicks", "partition": partition}
    return {**batch_of, "from_offset": low, "to_offset": high}


def test_ranges_that_follow_each_other_are_sound_also_with_markers_between() -> None:
    entries = [entry(1, 11, 20), entry(0, 0, 10), entry(0, 5, 15, partition=1)]
    assert list(are_disjoint(entries)) == []


@pytest.mark.parametrize("other", [entry(7, 9, 12), entry(7, 0, 10), entry(7, 3, 4)])
def test_an_offset_that_is_counted_twice_is_named(other: dict[str, Any]) -> None:
    (fault,) = are_disjoint([other, entry(0, 0, 10)])
    assert "clicks/0" in fault
    assert f"counts offset {max(other['from_offset'], 0):,} too" in fault
