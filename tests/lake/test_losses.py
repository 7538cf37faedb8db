"""Losses: a fact about the log, recorded once, that every generation passes when it has landed up to it."""

from config.declarations import table_named
from config.settings import Settings
from lake import ledger, losses
from lake.tables import read_arrow

PLACE, OTHER = ("clicks", 0), ("clicks", 1)


def test_a_loss_is_recorded_once_with_its_reason(fresh_home: Settings) -> None:
    losses.record(fresh_home, "landing", {PLACE: (10, 30)}, "first")
    losses.record(fresh_home, "landing", {PLACE: (10, 30), OTHER: (5, 6)}, "again")
    found = [(row["partition"], row["lost"], row["reason"]) for row in losses.recorded(fresh_home, "landing")]
    assert sorted(found) == [(0, 20, "first"), (1, 1, "again")]
    assert ledger.entries(fresh_home, ["landing"]) == []
    keys = [tuple(row[name] for name in table_named("ops.ledger").key) for row in ledger.entries(fresh_home)]
    assert len(set(keys)) == 2
    rows = read_arrow(ledger.folder(fresh_home, "landing.lost", 1))
    assert rows["input"].to_pylist() == [0, 0]


def test_landing_continues_after_a_loss() -> None:
    lost = [
        {"topic": "clicks", "partition": 0, "from_offset": 30, "to_offset": 40},
        {"topic": "clicks", "partition": 0, "from_offset": 10, "to_offset": 30},
        {"topic": "clicks", "partition": 1, "from_offset": 7, "to_offset": 9},
    ]
    assert losses.past_losses({PLACE: 10, OTHER: 6}, lost) == {PLACE: 40, OTHER: 6}
    assert losses.past_losses({PLACE: 50}, lost) == {PLACE: 50}


def test_ranges_are_listed_in_one_line() -> None:
    ranges = {OTHER: (1_000, 2_500), PLACE: (3, 4)}
    assert losses.describe(ranges) == "clicks/0 offsets 3 to 3 (1), clicks/1 offsets 1,000 to 2,499 (1,500)"
