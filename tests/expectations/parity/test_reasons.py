"""Reasons: a row that differs is explained by the events behind it, the first reason first; otherwise by nothing."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from config.declarations import table_named
from expectations.parity.reasons import LATE, LOGIC, ONE_SIDED, UNEXPLAINED, Explained, explain
from expectations.parity.rows import compare
from streaming.job import job_named

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
TABLE = table_named("gold.views_per_minute")
EVENT = "event_id string, type string, product_id string, tier string, event_time timestamp"
Frame = Callable[..., DataFrame]


@pytest.fixture
def windows(spark: SparkSession) -> Frame:
    """Make rows of a table of minutes, one after the other, by their numbers of views."""

    def windows(*views: int | None) -> DataFrame:
        rows = []
        for minute, count in enumerate(views):
            start = NOON + timedelta(minutes=minute)
            given = {"window_start": start, "window_end": start + timedelta(minutes=1), "product_id": "p1"}
            row: dict[str, Any] = dict.fromkeys(TABLE.stored) | given | {"tier": "gold", "views": count}
            rows += [tuple(row.values())] if count is not None else []
        return spark.createDataFrame(rows, TABLE.ddl)

    return windows


@pytest.fixture
def viewed(spark: SparkSession) -> Frame:
    """Make events that look at the product, each by its id and its minute."""

    def viewed(**minutes: int) -> DataFrame:
        rows = [
            (name, "page_view", "p1", "gold", NOON + timedelta(minutes=at, seconds=30)) for name, at in minutes.items()
        ]
        return spark.createDataFrame(rows, EVENT)

    return viewed


def explained(left: DataFrame, right: DataFrame, old: DataFrame | None = None, **evidence: DataFrame) -> Explained:
    gather = {reason: (lambda events=events: {"silver.clicks_enriched": events}) for reason, events in evidence.items()}
    return explain(compare(left, right, TABLE), job_named("views_per_minute"), TABLE.key, gather, old)


def test_equal_rows_need_no_reason_and_no_evidence(windows: Frame) -> None:
    def never() -> dict[str, DataFrame]:
        raise AssertionError("it was gathered")

    parity = compare(windows(1, 2, 3), windows(1, 2, 3), TABLE)
    assert (parity.equal, parity.rows, parity.left_hash) == (3, 0, parity.right_hash)
    assert explain(parity, job_named("views_per_minute"), TABLE.key, {LATE: never}).by_reason == {}


def test_each_row_has_the_reason_whose_events_it_contains(windows: Frame, viewed: Frame) -> None:
    found = explained(
        windows(1, 2, 3, 9), windows(1, 3, 4), **{LATE: viewed(late=1), ONE_SIDED: viewed(beyond=2, late=1, unread=3)}
    )
    assert found.by_reason == {LATE: 1, ONE_SIDED: 2}
    assert found.unexplained == 0
    told = {row.window_start.minute: (row.reason, row.events) for row in found.rows.collect()}
    assert told == {1: (LATE, ["late"]), 2: (ONE_SIDED, ["beyond"]), 3: (ONE_SIDED, ["unread"])}


def test_a_row_that_no_event_is_behind_has_no_reason(windows: Frame, viewed: Frame) -> None:
    found = explained(windows(1, 2, 3), windows(1, None, 4), **{LATE: viewed(other_minute=7, late=2)})
    assert found.by_reason == {LATE: 1, UNEXPLAINED: 1}
    (row,) = found.rows.filter("reason = 'unexplained'").collect()
    assert (row.window_start.minute, row.right, row.events) == (1, None, None)


def test_changed_logic_explains_only_the_row_that_the_old_code_makes(windows: Frame) -> None:
    found = explained(windows(1, 5, 6), windows(1, 2, 3), old=windows(1, 2, 99))
    assert found.by_reason == {LOGIC: 1, UNEXPLAINED: 1}
    (row,) = found.rows.filter(f"reason = '{LOGIC}'").collect()
    assert (row.window_start.minute, row.left.views, row.right.views) == (1, 5, 2)
