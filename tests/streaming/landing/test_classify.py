"""Classification: each record of a batch goes the first way that fits; on three rows, without a lake."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import deltalake
import pyarrow as pa
import pytest

from config.settings import Settings
from lake.batch import Batch
from lake.location import table_location
from streaming.landing.classify import (
    COPY_SCHEMA,
    DUPLICATE_OF,
    INPUT_COLUMNS,
    LATE_TABLE,
    MAX_RANGES,
    _ranges,
    classify,
)

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("event_id", pa.string()),
        ("event_time", pa.timestamp("us", "UTC")),
        ("arrival_time", pa.timestamp("us", "UTC")),
        ("late_by_ms", pa.int64()),
        ("rules", pa.list_(pa.string())),
        ("content_hash", pa.int64()),
        ("dedup_hash", pa.int64()),
        ("size", pa.int64()),
    ]
)


@pytest.fixture(autouse=True)
def empty_tables(fresh_home: Settings) -> None:
    """Tables in which nothing has landed, with the columns by which copies are known."""
    for name in ("silver.clicks", LATE_TABLE):
        columns = COPY_SCHEMA.append(pa.field("duplicate_of", DUPLICATE_OF))
        deltalake.write_deltalake(str(table_location(fresh_home, name)), columns.empty_table())


def batch(home: Settings, **fields: Any) -> Batch:
    return Batch(rows=cast(Any, None), job="landing", id=0, epoch=1, generation=1, settings=home, **fields)


def record(offset: int, event_id: str, **fields: Any) -> dict[str, Any]:
    """Make a valid record that came in time."""
    row: dict[str, Any] = {
        "topic": "clicks",
        "partition": 0,
        "offset": offset,
        "event_id": event_id,
        "event_time": NOON,
        "arrival_time": NOON,
        "late_by_ms": None,
        "rules": [],
        "content_hash": 1,
        "size": 10,
    } | fields
    return {**row, "dedup_hash": hash((row["event_id"], row["event_time"].hour))}


def classified(of: Batch, *records: dict[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = classify(pa.Table.from_pylist(list(records), SCHEMA), of).to_pylist()
    return rows


def test_the_columns_of_these_rows_are_those_that_it_needs() -> None:
    assert set(SCHEMA.names) == set(INPUT_COLUMNS)


def test_broken_comes_before_late_and_late_before_silver(fresh_home: Settings) -> None:
    rows = classified(
        batch(fresh_home),
        record(0, "fine"),
        record(1, "late", late_by_ms=5),
        record(2, "broken and late", late_by_ms=5, rules=["dwell_not_negative"]),
    )
    assert [row["outcome"] for row in rows] == ["silver", "late", "quarantined"]
    assert [row["rules"] for row in rows] == [[], [], ["dwell_not_negative"]]


def test_a_copy_points_to_the_first_in_the_log(fresh_home: Settings) -> None:
    rows = classified(batch(fresh_home), record(7, "a"), record(3, "a"), record(4, "b"))
    assert [row["outcome"] for row in rows] == ["duplicates", "silver", "silver"]
    assert rows[0]["duplicate_of"] == {"partition": 0, "offset": 3}
    assert [row["duplicate_of"] for row in rows[1:]] == [None, None]


def test_the_same_id_with_another_content_is_quarantined(fresh_home: Settings) -> None:
    _, reused = classified(batch(fresh_home), record(0, "a"), record(1, "a", content_hash=2))
    assert (reused["outcome"], reused["rules"]) == ("quarantined", ["event_id_reused"])


def test_a_late_copy_is_late_and_still_points_to_the_first(fresh_home: Settings) -> None:
    _, late = classified(batch(fresh_home), record(0, "a"), record(1, "a", late_by_ms=5))
    assert (late["outcome"], late["duplicate_of"]) == ("late", {"partition": 0, "offset": 0})


def test_a_broken_record_is_the_first_of_nothing(fresh_home: Settings) -> None:
    rows = classified(batch(fresh_home), record(0, "a", rules=["not_json"]), record(1, "a"))
    assert [row["outcome"] for row in rows] == ["quarantined", "silver"]


def test_beyond_the_horizon_the_same_id_is_another_event(fresh_home: Settings) -> None:
    rows = classified(batch(fresh_home), record(0, "a"), record(1, "a", event_time=NOON + timedelta(hours=1)))
    assert [row["outcome"] for row in rows] == ["silver", "silver"]


def test_in_a_replay_nothing_is_late(fresh_home: Settings) -> None:
    (row,) = classified(batch(fresh_home, is_replay=True), record(0, "a", late_by_ms=5))
    assert row["outcome"] == "silver"


@pytest.mark.parametrize("table", ["silver.clicks", LATE_TABLE])
@pytest.mark.parametrize(("content", "outcome"), [(1, "duplicates"), (2, "quarantined")])
def test_what_landed_before_is_the_first(fresh_home: Settings, table: str, content: int, outcome: str) -> None:
    there = {"topic": "clicks", "event_id": "a", "event_time": NOON, "partition": 5, "offset": 99, "content_hash": 1}
    path = table_location(fresh_home, table)
    deltalake.write_deltalake(str(path), pa.Table.from_pylist([there], COPY_SCHEMA), mode="append", schema_mode="merge")
    (row,) = classified(batch(fresh_home), record(0, "a", content_hash=content))
    assert (row["outcome"], row["duplicate_of"]) == (outcome, {"partition": 5, "offset": 99})


def test_neighbouring_time_buckets_are_read_as_one_range() -> None:
    assert _ranges([1, 2, 3, 7]) == [(1, 4), (7, 8)]
    assert _ranges([]) == []
    apart = list(range(0, 3 * MAX_RANGES, 2))
    assert _ranges(apart) == [(0, apart[-1] + 1)]
