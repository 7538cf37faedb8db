"""Bounded sessions: by the gaps between events, exactly the rows of the session window."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from streaming.bounded import recompute
from streaming.job import job_named

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
GAP = timedelta(minutes=30)
MICROSECOND = timedelta(microseconds=1)
Event = tuple[str, datetime, str]


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Callable[[list[Event]], dict[str, DataFrame]]:
    """Make the inputs of events: orders by their type, clicks of the others."""

    def made(events: list[Event]) -> dict[str, DataFrame]:
        rows = spark.createDataFrame(events, "user_id string, event_time timestamp, type string").localCheckpoint()
        of_orders = F.col("type").startswith("order")
        return {"silver.clicks": rows.filter(~of_orders), "silver.orders": rows.filter(of_orders)}

    return made


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param([("u", NOON, "page_view"), ("u", NOON + GAP, "click")], [2], id="exactly the gap"),
        pytest.param(
            [("u", NOON, "page_view"), ("u", NOON + GAP + MICROSECOND, "click")], [1, 1], id="longer than the gap"
        ),
        pytest.param(
            [("u", NOON, "click"), ("u", NOON, "page_view"), ("u", NOON, "order_placed"), ("v", NOON, "click")],
            [1, 3],
            id="at one time",
        ),
        pytest.param(
            [
                ("u", NOON + 2 * GAP, "click"),
                ("u", NOON, "click"),
                ("u", NOON + GAP, "order_status_changed"),  # no event of a session
            ],
            [1, 1],
            id="other events do not extend it",
        ),
        pytest.param(
            [("u", NOON + timedelta(hours=11, minutes=step), "page_view") for step in (50, 75, 100)],
            [3],
            id="across midnight",
        ),
    ],
)
def test_sessions_are_those_of_the_session_window(
    tables: Callable[[list[Event]], dict[str, DataFrame]], events: list[Event], expected: list[int]
) -> None:
    inputs, job = tables(events), job_named("sessions")
    found = recompute(job, inputs)
    rows = sorted(found.collect())
    assert rows == sorted(job.apply(inputs).collect())
    assert found.schema.simpleString() == job.apply(inputs).schema.simpleString()
    assert sorted(row.events for row in rows) == expected


def test_a_filter_on_the_result_loses_no_event(tables: Callable[[list[Event]], dict[str, DataFrame]]) -> None:
    # Spark pushes it below the session window, where each event is a session of its own.
    inputs = tables([("u", NOON + GAP * step, "page_view") for step in range(3)])
    late = recompute(job_named("sessions"), inputs).filter(F.col("session_end") > F.lit(NOON + 2 * GAP))
    assert [row.events for row in late.collect()] == [3]
