"""The merge: batch before the fence, stream after it, wherever the fence stands."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from batch.merge import comparable, merged
from config.declarations import table_named, tables

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)


def window(minute: int, views: int) -> dict[str, Any]:
    start = MONDAY + timedelta(minutes=minute)
    end = start + timedelta(minutes=1)
    return {"window_start": start, "window_end": end, "product_id": "p1", "tier": "gold", "views": views}


def session(minute: int, length: int, events: int) -> dict[str, Any]:
    start = MONDAY + timedelta(minutes=minute)
    return {"user_id": "u1", "session_start": start, "session_end": start + timedelta(minutes=length), "events": events}


def lambda_answer(
    spark: SparkSession, name: str, batch: list[Any], stream: list[Any], fence: datetime
) -> Counter[tuple[Any, ...]]:
    table = table_named(name)
    columns = ", ".join(f"`{column}` {declared.type}" for column, declared in table.stored.items())
    for view, rows in (("of_batch", batch), ("of_stream", stream)):
        values = [tuple(row.get(column) for column in table.stored) for row in rows]
        spark.createDataFrame(values, columns).createOrReplaceTempView(view)
    query = merged(table, "of_batch", "of_stream", f"timestamp'{fence.isoformat()}'")
    measure = {"gold.views_per_minute": "views", "gold.sessions": "events", "gold.order_status": "status"}[name]
    return Counter(row[measure] for row in spark.sql(query).collect())


@pytest.mark.parametrize("seconds", [0, 1, 59, 60, 61, 90, 119, 120, 600])
def test_every_window_is_there_once_wherever_the_fence_stands(spark: SparkSession, seconds: int) -> None:
    batch, stream = ([window(minute, base + minute) for minute in range(4)] for base in (10, 20))
    found = lambda_answer(spark, "gold.views_per_minute", batch, stream, MONDAY + timedelta(seconds=seconds))
    from_batch = [10 + minute for minute in range(4) if (minute + 1) * 60 < seconds]
    assert found == Counter(from_batch + [20 + minute for minute in range(len(from_batch), 4)])


def test_a_window_that_batch_has_only_a_part_of_is_the_streams(spark: SparkSession) -> None:
    found = lambda_answer(
        spark, "gold.views_per_minute", [window(0, 5)], [window(0, 7)], MONDAY + timedelta(seconds=30)
    )
    assert found == Counter([7])


def test_a_window_that_the_stream_lost_to_lateness_is_the_batchs(spark: SparkSession) -> None:
    found = lambda_answer(spark, "gold.views_per_minute", [window(0, 5)], [], MONDAY + timedelta(minutes=5))
    assert found == Counter([5])


def test_a_session_that_the_fence_falls_into_is_the_streams(spark: SparkSession) -> None:
    cut_short, whole = session(0, 40, 3), session(0, 70, 5)
    found = lambda_answer(spark, "gold.sessions", [cut_short], [whole], MONDAY + timedelta(minutes=35))
    assert found == Counter([5])


def test_a_stream_behind_the_fence_leaves_no_gap(spark: SparkSession) -> None:
    batch = [window(minute, 10 + minute) for minute in range(4)]
    found = lambda_answer(spark, "gold.views_per_minute", batch, batch[:1], MONDAY + timedelta(minutes=30))
    assert found == Counter([10, 11, 12, 13])


def test_an_order_that_changed_after_the_fence_is_the_streams(spark: SparkSession) -> None:
    def order(name: str, status: str, minute: int) -> dict[str, Any]:
        return {"order_id": name, "status": status, "status_time": MONDAY + timedelta(minutes=minute)}

    batch = [order("o1", "placed", 1), order("o2", "sent", 2), order("o3", "lost by the stream", 1)]
    stream = [order("o1", "sent", 9), order("o2", "placed", 1), order("o4", "new", 8)]
    found = lambda_answer(spark, "gold.order_status", batch, stream, MONDAY + timedelta(minutes=5))
    assert found == Counter(["sent", "sent", "lost by the stream", "new"])


def test_every_gold_table_has_a_lambda_answer() -> None:
    assert all(comparable(table) for table in tables().values() if table.layer == "gold")
