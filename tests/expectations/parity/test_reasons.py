"""Reasons: a differing row has one only if the events behind it, added to or taken from its inputs, make both rows."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from config.declarations import table_named
from expectations.parity.reasons import (
    BECAUSE,
    DIMENSION,
    LATE,
    LOGIC,
    ONE_SIDED,
    UNEXPLAINED,
    Explained,
    Recomputed,
    explain,
)
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


def explained(
    left: DataFrame, right: DataFrame, again: tuple[DataFrame, DataFrame], *evidence: DataFrame, **others: DataFrame
) -> Explained:
    """Explain what differs; again: both sides as they are computed from their inputs."""
    tiers = [lambda events=events: {"silver.clicks_enriched": events} for events in evidence]
    return explain(
        compare(left, right, TABLE),
        job_named("views_per_minute"),
        TABLE.key,
        lambda: Recomputed(*again, **others),
        tiers,
    )


def reasons(found: Explained) -> dict[int, tuple[str, list[str] | None]]:
    return {row.window_start.minute: (row.reason, row.events) for row in found.rows.collect()}


def because(events: DataFrame, reason: str) -> DataFrame:
    return events.withColumn(BECAUSE, F.lit(reason))


def test_equal_rows_need_no_reason_and_no_evidence(windows: Frame) -> None:
    def never() -> Any:
        raise AssertionError("it was computed again")

    parity = compare(windows(1, 2, 3), windows(1, 2, 3), TABLE)
    assert (parity.equal, parity.rows, parity.left_hash) == (3, 0, parity.right_hash)
    assert explain(parity, job_named("views_per_minute"), TABLE.key, never, [never]).by_reason == {}


def test_each_row_has_the_first_reason_whose_events_it_contains(windows: Frame, viewed: Frame) -> None:
    left, right = windows(1, 2, 3, 9), windows(1, 3, 4)
    late = because(viewed(late=1), LATE)
    beyond = because(viewed(beyond=2, late=1, unread=3), ONE_SIDED)
    found = explained(left, right, (left, right), late, beyond)
    assert found.by_reason == {LATE: 1, ONE_SIDED: 2}
    assert reasons(found) == {1: (LATE, ["late"]), 2: (ONE_SIDED, ["beyond"]), 3: (ONE_SIDED, ["unread"])}


def test_a_row_with_a_late_event_that_is_also_wrong_has_no_reason(windows: Frame, viewed: Frame) -> None:
    late = because(viewed(a=0, b=1, c=2, d=3), LATE)
    left, right = windows(3, 3, 3, None), windows(2, 1, None, 7)
    again = windows(3, 3, 3, None), windows(2, 2, 2, None)  # wrong value, missing row, row too many
    assert reasons(explained(left, right, again, late)) == {
        0: (LATE, ["a"]),
        1: (UNEXPLAINED, None),
        2: (UNEXPLAINED, None),
        3: (UNEXPLAINED, None),
    }
    assert reasons(explained(right, left, (again[1], again[0]), late)) == {
        0: (LATE, ["a"]),
        1: (UNEXPLAINED, None),
        2: (UNEXPLAINED, None),
        3: (UNEXPLAINED, None),
    }


def test_a_row_that_no_event_is_behind_has_no_reason(windows: Frame, viewed: Frame) -> None:
    left, right = windows(1, 2, 3), windows(1, None, 4)
    found = explained(left, right, (left, right), because(viewed(other_minute=7, late=2), LATE))
    assert found.by_reason == {LATE: 1, UNEXPLAINED: 1}
    (row,) = found.rows.filter("reason = 'unexplained'").collect()
    assert (row.window_start.minute, row.right, row.events) == (1, None, None)


def test_a_doubled_row_differs_and_has_no_reason(windows: Frame, viewed: Frame) -> None:
    once, twice = windows(1, 2), windows(1, 2).union(windows(1))
    late = because(viewed(late=0), LATE)
    for left, right in ((once, twice), (twice, once), (twice, twice)):
        found = explained(left, right, (once, once), late)
        assert reasons(found) == {0: (UNEXPLAINED, None)}
    parity = compare(once, twice, TABLE)
    assert parity.left_hash != parity.right_hash


def test_changed_logic_explains_only_the_row_that_the_old_code_makes(windows: Frame, viewed: Frame) -> None:
    left, right, old = windows(1, 5, 6, 4), windows(1, 2, 3, 3), windows(1, 2, 99, 3)
    late = because(viewed(late=3), LATE)
    found = explained(left, right, (left, windows(1, 5, 6, 3)), late, previous=old)
    assert reasons(found) == {1: (LOGIC, None), 2: (UNEXPLAINED, None), 3: (LATE, ["late"])}


def test_a_dimension_explains_only_rows_that_its_earlier_versions_make(windows: Frame) -> None:
    left, right = windows(1, 5, 6), windows(1, 2, 3)
    possible = windows(None, 2, 2).union(windows(None, 5, 6))
    found = explained(left, right, (left, left), outdated=possible)
    assert reasons(found) == {1: (DIMENSION, None), 2: (UNEXPLAINED, None)}
