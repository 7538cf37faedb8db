"""Inputs: differing rows are recomputed from the events that they depend on, and from no others."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, cast

import pytest
from handmade import NOON, frame
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from config.declarations import table_named
from expectations.parity.inputs import Restriction, corrected, events, outdated
from expectations.parity.reasons import BECAUSE, LATE, UNEXPLAINED, Explained
from expectations.parity.rows import compare
from expectations.parity.sides import Side, Step
from streaming.job import Job, job_named

CLICKS, USERS = "silver.clicks", "silver.users"
DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)
Restrict = Callable[..., set[str]]


def clicked(event_id: str, at: datetime, **fields: Any) -> dict[str, Any]:
    return {"event_id": event_id, "event_time": at, "event_date": at.date(), "offset": 0, "partition": 0} | fields


@pytest.fixture
def restrict(spark: SparkSession) -> Restrict:
    """Restrict clicks to those that an `ad_clicks` row of noon depends on, which differs; return their ids."""

    def restrict(*clicks: dict[str, Any], closed_until: datetime | None = None) -> set[str]:
        table = table_named("gold.ad_clicks")
        row = {"impression_id": "i1", "click_event_id": "c1", "click_time": NOON, "day": NOON.date()}
        left, right = (frame(spark, table.name, row | {"user_id": user}) for user in ("u1", "u2"))
        parity = compare(left, right, table, closed_until)
        found = Restriction(job_named("ad_clicks"), parity).of({CLICKS: frame(spark, CLICKS, *clicks)})
        return {row.event_id for row in found[CLICKS].collect()}

    return restrict


def test_only_events_that_share_a_value_with_the_row_are_read(restrict: Restrict) -> None:
    assert restrict(clicked("mine", NOON, impression_id="i1"), clicked("other", NOON, impression_id="i2")) == {"mine"}


def test_only_the_days_within_the_gap_of_the_job_are_read(restrict: Restrict) -> None:
    days = {name: NOON + days * DAY for name, days in {"before": -1, "same": 0, "after": 1, "far": 2}.items()}
    clicks = [clicked(name, at, impression_id="i1") for name, at in days.items()]
    assert restrict(*clicks) == {"before", "same", "after"}


def test_events_that_count_in_no_final_row_are_not_read(restrict: Restrict) -> None:
    clicks = [clicked(name, NOON + after, impression_id="i1") for name, after in {"in": MINUTE, "out": DAY / 4}.items()]
    assert restrict(*clicks, closed_until=NOON + DAY / 4) == {"in"}


def test_a_table_that_the_job_looks_up_is_left_whole(spark: SparkSession) -> None:
    table = table_named("silver.clicks_enriched")
    left, right = (frame(spark, table.name, clicked("e1", NOON, tier=tier)) for tier in ("gold", "silver"))
    tables = {
        CLICKS: frame(spark, CLICKS, clicked("e1", NOON), clicked("e2", NOON)),
        USERS: frame(spark, USERS, {"event_id": "v1", "user_id": "u9", "event_time": NOON + DAY}),
    }
    found = Restriction(job_named("clicks_enriched"), compare(left, right, table)).of(tables)
    assert [row.event_id for row in found[CLICKS].collect()] == ["e1"]
    assert found[USERS].count() == 1


def side(*steps: Step) -> Side:
    """Make a side of which only the batches matter in which its records landed."""
    return Side("", cast("Any", None), frozenset(), lambda _: None, steps=steps)


def version(offset: int, tier: str, hours: int, user: str = "u1") -> dict[str, Any]:
    """Make a version of a user that began some hours before noon."""
    began = NOON - timedelta(hours=hours)
    common = {"event_id": f"v{offset}", "event_time": began, "valid_from": began, "op": "u", "partition": 0}
    return common | {"user_id": user, "tier": tier, "offset": offset}


def tiers(spark: SparkSession, job: Job, clicks: DataFrame, users: DataFrame, of: Side) -> dict[str, set[str]]:
    whole = users.withColumn("valid_to", F.expr(table_named(USERS).valid_to or "null"))
    rows = outdated(job, {CLICKS: clicks, USERS: whole}, of)
    assert rows is not None
    found: dict[str, set[str]] = {}
    for row in rows.collect():
        found.setdefault(row.event_id, set()).add(row.tier)
        assert row.user_id in ("u1", "u2")
    return found


def test_a_click_has_the_last_version_that_it_surely_knew_or_a_later_one(spark: SparkSession) -> None:
    job = job_named("clicks_enriched")
    clicks = frame(spark, CLICKS, clicked("e1", NOON, user_id="u1"), clicked("e2", NOON, user_id="u2", offset=1))
    users = frame(
        spark,
        USERS,
        version(0, "bronze", 3),
        version(1, "silver", 2),
        version(2, "gold", 1),  # in a later batch than the click
        version(3, "platinum", 1, user="u2"),  # all that is known of u2, in a later batch too
    )
    batches = side(("clicks", 0, 0, 2, 0), ("users", 0, 0, 2, 0), ("users", 0, 2, 4, 1))
    assert tiers(spark, job, clicks, users, batches) == {"e1": {"silver", "gold"}, "e2": {"unknown", "platinum"}}
    every = side(("clicks", 0, 0, 2, 1), ("users", 0, 0, 4, 0))
    assert tiers(spark, job, clicks, users, every) == {"e1": {"gold"}, "e2": {"platinum"}}


def test_without_batches_no_row_is_outdated(spark: SparkSession) -> None:
    clicks, users = frame(spark, CLICKS, clicked("e1", NOON)), frame(spark, USERS)
    assert tiers(spark, job_named("clicks_enriched"), clicks, users, side()) == {}
    assert outdated(job_named("sessions"), {}, side()) is None


@pytest.fixture
def differing(spark: SparkSession) -> tuple[DataFrame, Explained]:
    """Clicks of a left side, and what differs on the right: one for a reason, the others without."""
    table = table_named(CLICKS)
    left = frame(
        spark,
        CLICKS,
        *(clicked(name, NOON, agent="left") for name in ("wrong", "left_only", "late")),
        clicked("equal", NOON),
    )
    right = frame(
        spark,
        CLICKS,
        *(clicked(name, NOON, agent="right") for name in ("wrong", "right_only", "late")),
        clicked("equal", NOON),
    )
    parity = compare(left, right, table)
    reason = F.when(F.col("event_id") == "late", LATE).otherwise(UNEXPLAINED)
    return left, Explained(parity, parity.differing.withColumn("reason", reason), {}, table.key)


def test_a_row_without_a_reason_is_replaced_by_that_of_the_right_side(differing: tuple[DataFrame, Explained]) -> None:
    left, found = differing
    rows = corrected(left, table_named(CLICKS), found).collect()
    expected = {"equal": None, "wrong": "right", "right_only": "right", "late": "left"}
    assert {row.event_id: row.agent for row in rows} == expected
    assert len(rows) == len(expected)


def test_the_events_with_a_reason_are_those_of_both_sides(differing: tuple[DataFrame, Explained]) -> None:
    rows = events(differing[1], table_named(CLICKS)).collect()
    assert {(row.event_id, row.agent, row[BECAUSE]) for row in rows} == {
        ("late", "left", LATE),
        ("late", "right", LATE),
    }
