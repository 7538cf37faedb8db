"""Arrival: a timestamp that cannot be true is not believed, at the first reading or ever after."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from handmade import NOON, RECORD, Lake, Log, click
from pyspark.sql import DataFrame, SparkSession

from config.declarations import topics
from lake import ledger
from streaming.landing import arrival
from streaming.landing.arrival import as_archived

YEAR = timedelta(days=365)


def kafka(spark: SparkSession, *arrivals: datetime) -> DataFrame:
    """Make records of clicks as Spark reads them from Kafka."""
    rows = [("clicks", 0, offset, b"u1", b"{}", None, moment) for offset, moment in enumerate(arrivals)]
    return spark.createDataFrame(rows, RECORD)


def believed(rows: DataFrame) -> list[bool]:
    return [row.arrival_time is not None for row in rows.orderBy("offset").collect()]


def test_a_timestamp_ahead_of_the_clock_is_kept_as_a_number(spark: SparkSession) -> None:
    ahead = datetime.now(UTC).replace(microsecond=0) + YEAR
    rows = as_archived(kafka(spark, NOON, ahead, datetime(1999, 12, 31, tzinfo=UTC))).orderBy("offset").collect()
    assert [row.timestamp_ms for row in rows] == [None, int(ahead.timestamp() * 1000), 946_598_400_000]
    assert [row.arrival_time and row.arrival_time.replace(tzinfo=UTC) for row in rows] == [NOON, None, None]


def test_what_was_not_believed_once_is_not_believed_when_its_time_has_come(spark: SparkSession) -> None:
    known = as_archived(kafka(spark, NOON, datetime.now(UTC) + YEAR))
    a_year_later = kafka(spark, NOON, NOON, NOON)
    assert believed(as_archived(a_year_later, known)) == [True, False, True]


def test_an_arrival_is_too_old_only_where_producers_set_it_and_only_when_it_is_new(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = kafka(spark, *[datetime.now(UTC) - timedelta(days=8)] * 2, datetime.now(UTC) - timedelta(days=6))
    assert believed(as_archived(records)) == [True, True, True]
    by_producers = {**topics(), "clicks": topics()["clicks"].model_copy(update={"arrival": "producer"})}
    monkeypatch.setattr(arrival, "topics", lambda: by_producers)
    assert believed(as_archived(records)) == [False, False, True]
    assert believed(as_archived(records, None, {"clicks": 0})) == [True, False, True]


def test_a_record_from_next_year_is_archived_and_quarantined_and_nothing_else(lake: Lake, log: Log) -> None:
    ahead = datetime.now(UTC) + YEAR
    log.send(click("good"))
    log.send(click("ahead", ahead))
    lake.land(log.records)
    assert [row.event_id for row in lake.rows("silver.clicks")] == ["good"]
    (quarantined,) = lake.rows("silver.quarantine")
    assert (quarantined.event_id, quarantined.rules) == ("ahead", ["arrival_time_implausible"])
    good, bad = lake.rows("bronze.events")
    assert (good.timestamp_ms, bad.arrival_time, bad.arrival_date) == (None, None, None)
    assert bytes(bad.value) == log.records[1][4]
    (entry,) = ledger.entries(lake.settings)
    terms: dict[str, Any] = {term: entry[term] for term in ("input", "silver", "quarantined", "max_arrival_time")}
    assert terms == {"input": 2, "silver": 1, "quarantined": 1, "max_arrival_time": NOON + timedelta(seconds=1)}


def test_a_batch_of_such_records_alone_has_no_arrival_times(lake: Lake, log: Log) -> None:
    log.send(click("ahead", datetime.now(UTC) + YEAR))
    lake.land(log.records)
    log.send(click("good"))
    lake.land(log.records[1:])
    assert [row["max_arrival_time"] for row in ledger.entries(lake.settings)] == [None, NOON + timedelta(seconds=1)]
    assert ledger.greatest_skew(lake.settings, "landing", 1) is None
