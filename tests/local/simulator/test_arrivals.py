"""Arrivals: all records, once each, in the order of their arrival."""

from pathlib import Path

from local.simulator.arrivals import in_arrival_order
from local.simulator.plan import Plan
from local.simulator.records import Record


def test_records_of_all_shards_come_by_their_arrival(plan: Plan, records: list[Record], tmp_path: Path) -> None:
    counted: list[int] = []
    with in_arrival_order(plan, tmp_path / "scratch", counted.append) as arriving:
        assert list(arriving) == sorted(records, key=lambda record: (record.arrival_ms, record.tie))
    assert len(counted) == plan.shards
    assert sum(counted) == len(records)
    assert not list((tmp_path / "scratch").iterdir())
