"""Landing: each record in bronze once and in exactly one place after it, however the log is cut into batches."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from handmade import NOON, Lake, Log, change, click
from pyspark.sql import SparkSession

from config.settings import Settings
from lake import ledger, tables
from streaming.landing import write


def test_a_valid_event_lands_typed_in_silver_and_untouched_in_bronze(lake: Lake, log: Log) -> None:
    log.send(click("e1", dwell_ms=1500))
    lake.land(log.records)
    (bronze,), (row,) = lake.rows("bronze.events"), lake.rows("silver.clicks")
    assert (bronze.topic, bronze.offset, bytes(bronze.value)) == ("clicks", 0, log.records[0][4])
    assert (row.event_id, row.dwell_ms, row.user_id, row.offset) == ("e1", 1500, "u1", 0)
    assert row.event_time.isoformat().startswith("2026-01-05T12:00:00")


def test_each_record_goes_the_first_way_that_fits(lake: Lake, log: Log) -> None:
    late = NOON + timedelta(minutes=11)
    log.send(click("ok"))
    log.send(b"garbage")
    log.send(click("late"), arrival=late)
    log.send(click("ok"))  # a copy
    log.send(click("ok", dwell_ms=7))  # the id of another event
    log.send(click("ok"), arrival=late)  # a copy, but late: late comes first
    log.send(click("bad", dwell_ms=-1), arrival=late)  # late, but broken: quarantine comes first
    lake.land(log.records)
    assert [row.event_id for row in lake.rows("silver.clicks")] == ["ok"]
    assert [(row.offset, row.duplicate_of) for row in lake.rows("silver.late")] == [(2, None), (5, (0, 0))]
    assert [(row.offset, row.duplicate_of) for row in lake.rows("silver.duplicates")] == [(3, (0, 0))]
    quarantined = {row.offset: row.rules for row in lake.rows("silver.quarantine")}
    assert quarantined == {1: ["not_json"], 4: ["event_id_reused"], 6: ["dwell_not_negative"]}
    (entry,) = ledger.entries(lake.settings)
    assert {term: entry[term] for term in ("input", *ledger.TERMS)} == {
        "input": 7, "silver": 1, "quarantined": 3, "erased": 0, "late": 2, "duplicates": 1,
    }  # fmt: skip


def test_a_copy_is_found_in_an_earlier_batch_also_when_the_first_was_late(lake: Lake, log: Log) -> None:
    log.send(click("a"))
    log.send(click("b"), arrival=NOON + timedelta(minutes=20))
    lake.land(log.records)
    log.send(click("a"), arrival=NOON + timedelta(minutes=2))
    log.send(click("b"), arrival=NOON + timedelta(minutes=1))  # its clock says it arrived in time; the first was late
    lake.land(log.records[2:])
    assert [(row.event_id, row.duplicate_of) for row in lake.rows("silver.duplicates")] == [
        ("a", (0, 0)),
        ("b", (0, 1)),
    ]
    assert [row.event_id for row in lake.rows("silver.clicks")] == ["a"]


def test_an_event_of_2001_does_not_make_a_replay_wait_for_it(lake: Lake, log: Log) -> None:
    log.send(click("new"))
    log.send(click("a month", NOON - timedelta(days=30)), arrival=NOON)
    log.send(click("years", NOON - timedelta(days=9_000)), arrival=NOON)
    lake.land(log.records[:1], is_replay=True)
    lake.land(log.records[1:], is_replay=True)
    assert ledger.disorder(lake.settings, "clicks", 1) == timedelta(days=30)
    assert [(row.event_id, row.rules) for row in lake.rows("silver.quarantine")] == [("years", ["event_time_too_old"])]


@pytest.fixture(scope="module")
def tangled() -> list[tuple[Any, ...]]:
    """Copies, reused ids, late and broken records and changes of users, over two partitions."""
    log = Log()
    for n in range(6):
        log.send(click(f"e{n}", NOON + timedelta(minutes=n)), partition=n % 2)
        log.send(change(f"c{n}", NOON + timedelta(minutes=9 - n), "gold" if n % 2 else "silver"), topic="users")
    log.send(click("e0"), arrival=NOON + timedelta(minutes=3))
    log.send(click("e1", NOON + timedelta(minutes=1), dwell_ms=9), partition=1)
    log.send(click("e2", NOON + timedelta(minutes=2)), arrival=NOON + timedelta(hours=2))
    log.send(b"{", partition=1)
    log.send(change("c0", NOON + timedelta(minutes=9), "silver"), topic="users")
    return log.records


def test_the_tables_are_the_same_for_any_batching(lake: Lake, another_lake: Any, tangled: list[Any]) -> None:
    lake.land(tangled)
    for cuts in ([5], [3, 9, 14]):
        other = another_lake()
        for low, high in zip([0, *cuts], [*cuts, len(tangled)], strict=True):
            other.land(tangled[low:high])
        assert other.contents() == lake.contents()


@pytest.fixture(scope="module")
def begun(
    spark: SparkSession, settings: Settings, tangled: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> Lake:
    """The first batch, landed with one write at a time, so that nothing after a failpoint has happened."""
    mine = settings.at(tmp_path_factory.mktemp("begun"))
    streaming = mine.streaming.model_copy(update={"parallel_writes": 1})
    lake = Lake(spark, mine.model_copy(update={"streaming": streaming}))
    lake.land(tangled[:4])
    return lake


@pytest.fixture(scope="module")
def undisturbed(begun: Lake, tangled: list[Any], tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The same, with the second batch landed."""
    lake = begun.copied(tmp_path_factory.mktemp("undisturbed"))
    lake.land(tangled[4:])
    return lake


class Killed(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize(
    "place",
    [
        "bronze.events",
        "silver.clicks",
        "silver.users",
        "silver.quarantine",
        "silver.late",
        "silver.duplicates",
        "ops.ledger",
    ],
)
def test_a_batch_broken_off_after_any_commit_is_repeated_without_a_trace(
    begun: Lake, undisturbed: Lake, tangled: list[Any], place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = begun.copied(tmp_path)
    with monkeypatch.context() as patch:
        for module in (tables, ledger):
            patch.setattr(module, "failpoint", lambda name: _die(name, f"after {place}"))
        with pytest.raises(Killed):
            lake.land(tangled[4:])
    recorded = {row["batch"] for row in ledger.entries(lake.settings)}
    assert recorded == ({0, 1} if place == "ops.ledger" else {0})
    lake.land(tangled[4:], batch=1)
    assert lake.contents() == undisturbed.contents()
    assert _terms(lake) == _terms(undisturbed)


def test_after_a_reset_an_unfinished_batch_is_completed_not_doubled(
    lake: Lake, another_lake: Any, tangled: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    another = another_lake()
    another.land(tangled)
    with monkeypatch.context() as patch:
        patch.setattr(ledger, "record_entry", lambda *_: _die("", ""))
        with pytest.raises(Killed):
            lake.land(tangled)
    # The new epoch may cut the log elsewhere: what the unfinished batch had written comes again in two batches.
    landed = {"clicks": 100, "users": 100}
    lake.land(tangled[:7], batch=0, epoch=2, landed=landed)
    lake.land(tangled[7:], batch=1, epoch=2, landed=landed)
    assert lake.contents() == another.contents()


def test_large_appends_by_spark_give_the_same_as_small_ones(lake: Lake, another_lake: Any, tangled: list[Any]) -> None:
    lake.land(tangled)
    by_spark = another_lake()
    by_spark.settings = by_spark.settings.model_copy(
        update={"streaming": by_spark.settings.streaming.model_copy(update={"records_on_driver": 0})}
    )
    by_spark.land(tangled[:9])
    by_spark.land(tangled[9:])
    by_spark.land(tangled[9:], batch=1)
    assert by_spark.contents() == lake.contents()


def test_a_batch_of_more_bytes_than_the_driver_takes_is_written_by_spark(
    lake: Lake, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(8):
        log.send(click(f"e{n}", NOON + timedelta(seconds=n), product_id=f"p{n}" * 20_000))
    log.send(b"garbage")
    with _result_size(lake.spark, "300k"):
        monkeypatch.setattr(write, "_split_arrow", lambda *_: pytest.fail("it was brought to the driver"))
        lake.land(log.records)
    assert [(row.event_id, len(row.product_id)) for row in lake.rows("silver.clicks")] == [
        (f"e{n}", 40_000) for n in range(8)
    ]
    assert [row.offset for row in lake.rows("silver.quarantine")] == [8]
    assert [bytes(row.value) for row in lake.rows("bronze.events")] == [record[4] for record in log.records]


def test_an_empty_batch_writes_nothing(lake: Lake) -> None:
    lake.land([])
    assert ledger.entries(lake.settings) == []
    assert lake.rows("bronze.events") == []


@contextmanager
def _result_size(spark: SparkSession, limit: str) -> Iterator[None]:
    """Let the driver take less: Spark looks the limit up for each stage, though it offers no way to change it."""
    conf = cast(Any, spark.sparkContext._jsc).sc().conf()
    before = conf.get("spark.driver.maxResultSize")
    conf.set("spark.driver.maxResultSize", limit)
    try:
        yield
    finally:
        conf.set("spark.driver.maxResultSize", before)


def _die(name: str, place: str) -> None:
    if name == place:
        raise Killed(place)


def _terms(lake: Lake) -> list[tuple[Any, ...]]:
    rows = ledger.entries(lake.settings)
    return sorted((r["batch"], r["topic"], r["partition"], r["input"], *(r[t] for t in ledger.TERMS)) for r in rows)
