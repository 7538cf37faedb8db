"""The ledger: a batch is recorded once, even if it is repeated, and batches are read back in order."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import deltalake
import pyarrow as pa

from config.settings import Settings
from lake import ledger
from lake.batch import Batch

NOON = datetime(2025, 3, 1, 12, tzinfo=UTC)


def batch(settings: Settings, number: int, *, epoch: int = 1, generation: int = 1, job: str = "landing") -> Batch:
    return Batch(cast(Any, None), job, number, epoch, generation, settings)


def record(of: Batch, *ends: int, topic: str = "clicks", arrivals: tuple[datetime, datetime] = (NOON, NOON)) -> None:
    """Record ten records of each partition, up to its end."""
    common = {"job": of.job, "generation": of.generation, "epoch": of.epoch, "batch": of.id, "topic": topic}
    counts = {"input": 10, "silver": 6, "quarantined": 1, "erased": 0, "late": 1, "duplicates": 2, "bytes": 1500}
    times = {"min_event_time": NOON, "max_event_time": NOON}
    times |= {"min_arrival_time": arrivals[0], "max_arrival_time": arrivals[1]}
    rows = [
        {**common, **counts, **times, "partition": partition, "from_offset": end - 10, "to_offset": end}
        for partition, end in enumerate(ends)
    ]
    ledger.record_entry(rows, of)


def test_a_batch_recorded_twice_is_there_once(fresh_home: Settings) -> None:
    record(batch(fresh_home, 0), 10, 10)
    record(batch(fresh_home, 0), 10, 10)
    assert len(ledger.entries(fresh_home)) == 2
    record(batch(fresh_home, 1), 20, 20)
    record(batch(fresh_home, 0), 10, 10)
    assert [row["batch"] for row in ledger.entries(fresh_home)] == [0, 0, 1, 1]


def test_the_same_number_in_another_epoch_is_another_batch(fresh_home: Settings) -> None:
    record(batch(fresh_home, 0), 10)
    record(batch(fresh_home, 0, epoch=2), 20)
    record(batch(fresh_home, 0, generation=2), 10)
    assert [(row["generation"], row["epoch"]) for row in ledger.entries(fresh_home)] == [(1, 1), (1, 2), (2, 1)]


def test_entries_come_in_the_order_in_which_batches_were_done(fresh_home: Settings) -> None:
    for job in ("other", "landing"):
        for epoch, number in ((1, 0), (1, 1), (1, 2), (2, 0)):
            record(batch(fresh_home, number, epoch=epoch, job=job), 10 * (epoch + number))
    order = [(row["job"], row["epoch"], row["batch"]) for row in ledger.entries(fresh_home)]
    assert order == [(job, *number) for job in ("landing", "other") for number in ((1, 0), (1, 1), (1, 2), (2, 0))]
    assert {row["job"] for row in ledger.entries(fresh_home, ["other"])} == {"other"}


def test_a_home_where_nothing_was_landed_has_no_entries(fresh_home: Settings) -> None:
    assert ledger.entries(fresh_home) == []
    assert ledger.entries(fresh_home, ["landing"]) == []
    assert ledger.landed_up_to(fresh_home, "landing", 1) == {}


def test_each_partition_ends_where_its_last_batch_did(fresh_home: Settings) -> None:
    record(batch(fresh_home, 0), 10, 10)
    record(batch(fresh_home, 1), 20)
    record(batch(fresh_home, 2, generation=2), 99)
    record(batch(fresh_home, 2, job="other"), 99)
    record(batch(fresh_home, 2), 10, topic="users")
    assert ledger.landed_up_to(fresh_home, "landing", 1) == {("clicks", 0): 20, ("clicks", 1): 10, ("users", 0): 10}


def test_the_greatest_skew_is_how_far_a_batch_reached_back_behind_those_before_it(fresh_home: Settings) -> None:
    def minutes(*after: int) -> tuple[datetime, datetime]:
        low, high = (NOON + timedelta(minutes=each) for each in after)
        return low, high

    assert ledger.greatest_skew(fresh_home, "landing", 1) is None
    record(batch(fresh_home, 0), 10, arrivals=minutes(0, 30))  # within one batch no row is closed too early
    record(batch(fresh_home, 0), 10, topic="users", arrivals=minutes(0, 500))
    record(batch(fresh_home, 1), 20, arrivals=minutes(30, 40))
    assert ledger.greatest_skew(fresh_home, "landing", 1) is None
    record(batch(fresh_home, 2), 30, arrivals=minutes(20, 25))
    record(batch(fresh_home, 0, epoch=2), 40, arrivals=minutes(17, 50))
    record(batch(fresh_home, 1, epoch=2), 50, arrivals=minutes(45, 60))
    skew = ledger.greatest_skew(fresh_home, "landing", 1)
    assert str(skew) == "clicks: partitions were read up to 23 min 0 s apart (epoch 2, batch 0)"
    assert skew
    assert not skew.within(timedelta(minutes=20))
    assert skew.within(timedelta(minutes=23))


def test_a_ledger_of_before_is_read_and_gone_on_with(fresh_home: Settings) -> None:
    record(batch(fresh_home, 0), 10)
    path = ledger.folder(fresh_home, "landing", 1)
    old = deltalake.DeltaTable(str(path)).to_pyarrow_table().drop_columns(["min_arrival_time"])
    path.remove()
    deltalake.write_deltalake(str(path), old)
    assert ledger.greatest_skew(fresh_home, "landing", 1) is None
    record(batch(fresh_home, 1), 20, arrivals=(NOON - timedelta(minutes=1), NOON))
    assert [row["min_arrival_time"] is None for row in ledger.entries(fresh_home)] == [True, False]
    assert str(ledger.greatest_skew(fresh_home, "landing", 1)).startswith("clicks: partitions were read up to 1 min")


def test_every_record_of_a_batch_is_counted_for_the_way_it_went(fresh_home: Settings) -> None:
    went = ["silver", "late", "silver", "silver", "duplicates"]
    common = {"topic": "clicks", "event_time": NOON}
    arrivals = [NOON + timedelta(seconds=i) for i in range(len(went))]
    rows = [
        {**common, "partition": 0, "offset": 5 + i, "size": 8, "outcome": way, "arrival_time": arrivals[i]}
        for i, way in enumerate(went)
    ]
    broken = {
        **common,
        "partition": 1,
        "offset": 7,
        "size": 0,
        "outcome": "quarantined",
        "event_time": None,
        "arrival_time": NOON,
    }
    counted = ledger.count(pa.Table.from_pylist([*rows, broken]), batch(fresh_home, 3, epoch=2))
    first, second = sorted(counted, key=lambda row: row["partition"])
    assert (first["job"], first["generation"], first["epoch"], first["batch"]) == ("landing", 1, 2, 3)
    assert (first["from_offset"], first["to_offset"], first["input"], first["bytes"]) == (5, 10, 5, 40)
    assert (first["min_arrival_time"], first["max_arrival_time"]) == (NOON, NOON + timedelta(seconds=4))
    assert {term: first[term] for term in ledger.TERMS} == {
        "silver": 3,
        "quarantined": 0,
        "erased": 0,
        "late": 1,
        "duplicates": 1,
    }
    assert (second["from_offset"], second["to_offset"], second["input"], second["bytes"]) == (7, 8, 1, 0)
    assert (second["silver"], second["quarantined"], second["min_event_time"]) == (0, 1, None)
    assert ledger.total([first, second], "input") == 6
    assert ledger.total([first, second], "silver", "users") == 0


def test_a_record_that_went_nowhere_is_missing_from_every_term(fresh_home: Settings) -> None:
    record = {"topic": "clicks", "partition": 0, "event_time": NOON, "size": 8, "arrival_time": NOON}
    rows = [{**record, "offset": offset, "outcome": way} for offset, way in enumerate(["silver", "late", "nowhere"])]
    (counted,) = ledger.count(pa.Table.from_pylist(rows), batch(fresh_home, 1))
    assert (counted["input"], sum(counted[term] for term in ledger.TERMS)) == (3, 2)


def test_a_redrive_moves_records_out_of_quarantine() -> None:
    common = {"topic": "clicks", "partition": 0, "from_offset": 5, "to_offset": 15}
    none = dict.fromkeys(ledger.TERMS, 0)
    landed = {**common, **none, "job": "landing", "input": 10, "silver": 7, "quarantined": 3}
    redriven = {**common, **none, "job": "redrive", "input": 2, "silver": 1, "late": 1}
    (net,) = ledger.net_of_redrives([landed, redriven])
    assert (net["silver"], net["quarantined"], net["late"], net["input"]) == (8, 1, 1, 10)


def test_the_records_read_are_those_of_the_generation_that_read_most(fresh_home: Settings) -> None:
    assert ledger.records_read(fresh_home) == 0
    for number in range(3):
        record(batch(fresh_home, number), 10 * number + 10, 10 * number + 10)
    record(batch(fresh_home, 0, generation=2), 10)  # a replay has begun
    record(batch(fresh_home, 0, job="redrive"), 10)
    assert ledger.records_read(fresh_home) == 60
