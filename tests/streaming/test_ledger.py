"""The ledger: a batch is in it once, whoever records it again, and can be read back in order."""

from datetime import UTC, datetime
from typing import Any, cast

import deltalake
from pyspark.sql import SparkSession

from config.settings import Settings
from streaming import ledger
from streaming.job import Batch

NOON = datetime(2025, 3, 1, 12, tzinfo=UTC)


def batch(settings: Settings, number: int, *, epoch: int = 1, generation: int = 1, job: str = "landing") -> Batch:
    return Batch(cast(Any, None), job, number, epoch, generation, settings)


def record(of: Batch, *ends: int, topic: str = "clicks") -> None:
    """Record ten records of each partition, up to its end."""
    place = {"job": of.job, "generation": of.generation, "epoch": of.epoch, "batch": of.id, "topic": topic}
    counts = {"input": 10, "silver": 6, "quarantined": 1, "erased": 0, "late": 1, "duplicates": 2, "bytes": 1500}
    times = {"min_event_time": NOON, "max_event_time": NOON, "max_arrival_time": NOON}
    rows = [
        {**place, **counts, **times, "partition": partition, "from_offset": end - 10, "to_offset": end}
        for partition, end in enumerate(ends)
    ]
    ledger.record(rows, of)


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
    assert order == [(job, *place) for job in ("landing", "other") for place in ((1, 0), (1, 1), (1, 2), (2, 0))]
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


def test_a_time_without_a_zone_is_kept_as_utc(fresh_home: Settings) -> None:
    ledger.record([{"job": "landing", "max_event_time": NOON.replace(tzinfo=None)}], batch(fresh_home, 0))
    path = ledger.folder(fresh_home, "landing")
    assert deltalake.DeltaTable(str(path)).to_pyarrow_table().to_pylist()[0]["max_event_time"] == NOON


def test_every_record_of_a_batch_is_counted_for_the_way_it_went(spark: SparkSession, fresh_home: Settings) -> None:
    record = "topic string, partition int, offset bigint, key binary, value binary, event_time timestamp,"
    record += " arrival_time timestamp, verdict string"
    went = ["silver", "late", "silver", "silver", "duplicates"]
    rows = [("clicks", 0, 5 + i, b"key", b"value", NOON, NOON, verdict) for i, verdict in enumerate(went)]
    sorted_out = spark.createDataFrame([*rows, ("clicks", 1, 7, None, None, None, NOON, "quarantined")], record)
    parsed, exceptions = sorted_out.drop("verdict"), sorted_out.filter("verdict <> 'silver'")
    first, second = sorted(
        ledger.count(parsed, exceptions, batch(fresh_home, 3, epoch=2)), key=lambda row: row["partition"]
    )
    assert (first["job"], first["generation"], first["epoch"], first["batch"]) == ("landing", 1, 2, 3)
    assert (first["from_offset"], first["to_offset"], first["input"], first["bytes"]) == (5, 10, 5, 40)
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
