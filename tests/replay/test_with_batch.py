"""Replay and the batch layer: equal row by row."""

from typing import Any

from expectations.parity.comparison import comparable_tables


def test_it_equals_the_batch_layer_row_by_row(against: dict[str, Any]) -> None:
    found = against["the batch layer"]
    assert set(found) == {table.name for table in comparable_tables()}
    assert {name: each["by_reason"] for name, each in found.items() if each["by_reason"]} == {}
    assert all(each["equal"] and each["hash"] == each["hash_of_other"] for each in found.values())
