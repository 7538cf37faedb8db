"""Late parts: what late events add to a window is next to its totals, or in them."""

import pytest
from handmade import NOON, Log, click
from pyspark.sql import DataFrame, SparkSession

from streaming.windows.late import add_late_parts, typed_late

COLUMNS = "minute int, product string, views bigint, late_views bigint"
PARTS = {"views": "late_views"}
LATE = "topic string, partition int, offset bigint, key binary, value binary, arrival_time timestamp"
LATE += ", duplicate_of struct<partition:int,offset:bigint>"


def windows(spark: SparkSession, *rows: tuple[int, str, int | None]) -> DataFrame:
    return spark.createDataFrame([(*row, None) for row in rows], COLUMNS)


@pytest.mark.parametrize(("merged", "total"), [(False, 5), (True, 7)])
def test_late_events_are_counted_beside_the_total_or_in_it(spark: SparkSession, merged: bool, total: int) -> None:
    found = add_late_parts(
        windows(spark, (1, "a", 5), (2, "a", 3)),
        windows(spark, (1, "a", 2)),
        ["minute", "product"],
        PARTS,
        merged=merged,
    )
    assert found.columns == ["minute", "product", "views", "late_views"]
    assert sorted(map(tuple, found.collect())) == [(1, "a", total, 2), (2, "a", 3, 0)]


@pytest.mark.parametrize(("merged", "total"), [(False, 0), (True, 2)])
def test_a_window_of_late_events_alone_is_a_row(spark: SparkSession, merged: bool, total: int) -> None:
    late = windows(spark, (1, "b", 2), (9, "a", 2))
    found = add_late_parts(windows(spark, (1, "a", 5)), late, ["minute", "product"], PARTS, merged=merged)
    assert sorted(map(tuple, found.collect())) == [(1, "a", 5, 0), (1, "b", total, 2), (9, "a", total, 2)]


def test_late_records_are_typed_again_those_of_one_topic_and_each_once(spark: SparkSession, log: Log) -> None:
    log.send(click("first"))
    log.send(click("copy"))
    log.send(click("other"), topic="orders")
    rows = [
        (topic, partition, offset, key, value, arrival, (0, 0) if offset else None)
        for topic, partition, offset, key, value, _, arrival in log.records
    ]
    (found,) = typed_late(spark.createDataFrame(rows, LATE), "clicks").collect()
    assert (found.event_id, found.event_time.astimezone(NOON.tzinfo), found.dwell_ms) == ("first", NOON, 1500)
