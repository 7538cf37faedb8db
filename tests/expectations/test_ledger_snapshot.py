"""The snapshot of the ledger check: which entries are read one by one, and what the others add up to."""

from typing import Any

import pyarrow as pa
import pytest

from config.declarations import table_named
from config.settings import Settings
from expectations.ledger_snapshot import SUMMED, LedgerSnapshot
from lake.ledger import TABLE, TERMS
from lake.tables import arrow_schema

NO_TIME = dict.fromkeys(("min_event_time", "max_event_time", "min_arrival_time", "max_arrival_time"))


def entry(batch: int, low: int, high: int, partition: int = 0, job: str = "landing", **values: Any) -> dict[str, Any]:
    place = {"job": job, "generation": 1, "epoch": 1, "batch": batch, "topic": "clicks", "partition": partition}
    counts = dict.fromkeys(TERMS, 0) | {"input": high - low, "silver": high - low, "bytes": 0}
    return {**place, "from_offset": low, "to_offset": high, **counts, **NO_TIME, **values}


ENTRIES = [
    entry(0, 0, 100),
    entry(0, 0, 50, partition=1),
    entry(1, 100, 130),
    entry(2, 130, 200),
    entry(0, 0, 100, job="redrive", quarantined=3),
]
LOST = [entry(0, 50, 60, partition=1, job="landing.lost", input=0, silver=0, lost=10)]


@pytest.fixture
def snapshot(fresh_home: Settings) -> LedgerSnapshot:
    recorded = pa.Table.from_pylist(ENTRIES, arrow_schema(table_named(TABLE)))
    return LedgerSnapshot(fresh_home, 1, recorded, LOST, {}, {}, {}, {}, {})


@pytest.mark.parametrize("since", [{}, {("clicks", 0): 128}, {("clicks", 0): 192, ("clicks", 1): 64}])
def test_entries_before_an_offset_are_added_up_and_the_others_are_read(
    snapshot: LedgerSnapshot, since: dict[tuple[str, int], int]
) -> None:
    def of(row: dict[str, Any]) -> int:
        return since.get((row["topic"], row["partition"]), 0)

    read = [(row["job"], row["batch"], row["partition"]) for row in snapshot.entries(since)]
    assert sorted(read) == sorted((r["job"], r["batch"], r["partition"]) for r in ENTRIES if r["to_offset"] > of(r))
    before = [row for row in (*ENTRIES, *LOST) if row["from_offset"] < of(row)]
    for place, found in snapshot.sums_before(since).items():
        mine = [row for row in before if (row["topic"], row["partition"]) == place]
        sums = {name: sum(row.get(name) or 0 for row in mine) for name in SUMMED}
        assert found == {"entries": len(mine), **sums}
    assert snapshot.sums_before(since).keys() == since.keys()
