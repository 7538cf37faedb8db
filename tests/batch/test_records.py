"""Duplicates of the batch layer: the first of all records of an event counts, in whatever order they came."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from handmade import NOON
from pyspark.sql import SparkSession

from batch.records import exceptions

COLUMNS = (
    "topic string, partition int, offset bigint, event_id string, event_time timestamp, "
    "content_hash bigint, dedup_hash bigint, rules array<string>"
)
Found = dict[tuple[int, int], tuple[tuple[int, int], bool]]


def record(partition: int, offset: int, event_id: str = "e1", at: datetime = NOON, **fields: Any) -> tuple[Any, ...]:
    values = {"content_hash": 1, "dedup_hash": int(event_id[1:]), "rules": []} | fields
    return ("clicks", partition, offset, event_id, at, *values.values())


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([record(0, 1), record(0, 2, "e2"), record(1, 1, "e3")], {}),
        ([record(1, 1), record(0, 9), record(0, 7)], {(0, 9): ((0, 7), False), (1, 1): ((0, 7), False)}),
        ([record(0, 1), record(0, 2, content_hash=2)], {(0, 2): ((0, 1), True)}),
        ([record(0, 1, rules=["broken"]), record(0, 2)], {}),
        ([record(0, 1, "e1", dedup_hash=5), record(0, 2, "e2", dedup_hash=5)], {}),
    ],
    ids=["all unique", "copies", "an id used again", "an invalid first copy", "equal hashes of two ids"],
)
def test_every_copy_but_the_first_is_named(spark: SparkSession, records: list[Any], expected: Found) -> None:
    rows = exceptions(spark.createDataFrame(records, COLUMNS), horizon_minutes=60).collect()
    assert {(row.partition, row.offset): (tuple(row.duplicate_of), row.reused) for row in rows} == expected
    assert len(rows) == len(expected)


def test_an_id_used_again_beyond_the_horizon_is_another_event(spark: SparkSession) -> None:
    records = [record(0, number, at=NOON + timedelta(minutes=30 * number)) for number in range(4)]
    rows = exceptions(spark.createDataFrame(records, COLUMNS), horizon_minutes=60).collect()
    assert {row.offset: row.duplicate_of.offset for row in rows} == {1: 0, 3: 2}
