"""Edges of windows and joins: a moment that belongs, and one a millisecond past it that does not."""

from collections.abc import Mapping
from typing import Any

import pytest
from handmade import Lake
from pyspark.sql import DataFrame, SparkSession

from config.declarations import table_named
from streaming.job import job_named
from streaming.roles.aggregator.sessions import sessions
from streaming.roles.aggregator.trending import RANKS, ranked, views_in_five_minutes
from streaming.roles.aggregator.views_per_minute import views_per_minute
from streaming.roles.enricher import attach_tier
from streaming.roles.joiner import ad_clicks, conversions, order_payments
from streaming.roles.materializer import order_status
from streaming.windows.closing import close

DAY = "2026-01-05"


def table(spark: SparkSession, name: str, *rows: Mapping[str, Any]) -> DataFrame:
    """Make rows of a table: what is not said is empty; `at` is the clock of the event time."""
    filled = [
        [f"{DAY} {row['at']}" if column == "event_time" else row.get(column) for column in table_named(name).stored]
        for row in rows
    ]
    declared = table_named(name).stored.items()
    texts = ", ".join(f"`{column}` {'string' if column == 'event_time' else c.type}" for column, c in declared)
    frame = spark.createDataFrame(filled, texts)
    return frame.withColumn("event_time", frame.event_time.cast("timestamp"))


def test_an_event_on_the_boundary_belongs_to_the_minute_that_begins(spark: SparkSession) -> None:
    view = {"type": "page_view", "product_id": "p1", "tier": "gold", "dwell_ms": 5}
    clicks = table(spark, "silver.clicks_enriched", *({**view, "at": at} for at in ("12:00:59.999", "12:01:00")))
    found = {row.window_start.strftime("%H:%M"): row.views for row in views_per_minute(clicks).collect()}
    assert found == {"12:00": 1, "12:01": 1}


def test_a_gap_of_just_thirty_minutes_does_not_end_a_session(spark: SparkSession) -> None:
    visits = {"a": ("12:00:00", "12:30:00"), "b": ("12:00:00", "12:30:00.001")}
    views = [{"type": "page_view", "user_id": user, "at": at} for user, times in visits.items() for at in times]
    order = {"type": "order_placed", "user_id": "a", "at": "12:45:00"}
    found = sessions(table(spark, "silver.clicks", *views), table(spark, "silver.orders", order)).collect()
    by_start = {
        (row.user_id, row.session_start.strftime("%H:%M:%S")): (row.events, row.pages, row.converted) for row in found
    }
    assert by_start == {
        ("a", "12:00:00"): (3, 2, True),
        ("b", "12:00:00"): (1, 1, False),
        ("b", "12:30:00"): (1, 1, False),
    }


def test_a_click_belongs_to_its_impression_for_just_five_minutes(spark: SparkSession) -> None:
    shown = {"type": "impression", "impression_id": "i1", "event_id": "shown", "at": "12:00:00"}
    clicked = [
        {"type": "click", "impression_id": "i1", "event_id": f"at {at}", "at": at}
        for at in ("11:59:59.999", "12:00:00", "12:05:00", "12:05:00.001")
    ]
    found = ad_clicks.ad_clicks(table(spark, "silver.clicks", shown, *clicked)).collect()
    assert sorted(row.click_event_id for row in found) == ["at 12:00:00", "at 12:05:00"]


def test_an_order_is_credited_to_a_cart_of_the_same_product_within_a_day(spark: SparkSession) -> None:
    cart = {"type": "add_to_cart", "user_id": "u1", "product_id": "p1"}
    carts = [{**cart, "event_id": at, "at": at} for at in ("11:00:00", "12:00:00", "12:00:00.001")]
    other = {**cart, "product_id": "p2", "event_id": "other", "at": "11:30:00"}
    order = {"type": "order_placed", "order_id": "o1", "user_id": "u1", "product_id": "p1", "at": "12:00:00"}
    rows = conversions.candidates(
        table(spark, "silver.clicks", *carts, other), table(spark, "silver.orders", order)
    ).collect()
    assert sorted(row.cart_event_id for row in rows) == ["11:00:00", "12:00:00"]


def test_an_order_has_just_an_hour_to_be_paid(spark: SparkSession) -> None:
    orders = [{"type": "order_placed", "order_id": f"o{n}", "at": "12:00:00"} for n in (1, 2, 3)]
    payments = [
        {"type": "payment_received", "order_id": "o1", "event_id": "in time", "amount_cents": 5, "at": "13:00:00"},
        {"type": "payment_received", "order_id": "o2", "event_id": "too late", "amount_cents": 5, "at": "13:00:00.001"},
        {"type": "payment_failed", "order_id": "o3", "event_id": "failed", "amount_cents": 5, "at": "12:10:00"},
    ]
    found = order_payments.candidates(
        table(spark, "silver.orders", *orders), table(spark, "silver.payments", *payments)
    )
    assert {row.order_id: (row.paid, row.payment_event_id) for row in found.collect()} == {
        "o1": (True, "in time"),
        "o2": (False, None),
        "o3": (False, None),
    }


def test_the_latest_status_wins_and_of_equals_the_greatest_id(spark: SparkSession) -> None:
    change = {"type": "order_status_changed", "order_id": "o1"}
    rows = [
        {**change, "event_id": "b", "status": "shipped", "at": "12:00:00"},
        {**change, "event_id": "a", "status": "packed", "at": "12:00:00"},
        {**change, "event_id": "c", "status": "paid", "at": "11:00:00"},
    ]
    (row,) = order_status(table(spark, "silver.orders", *rows)).collect()
    assert (row.status, row.status_event_id, row.changes) == ("shipped", "b", 3)


def test_a_click_has_the_tier_that_began_at_its_very_moment(spark: SparkSession) -> None:
    clicks = table(
        spark,
        "silver.clicks",
        *({"event_id": at, "user_id": "u1", "at": at} for at in ("11:59:59.999", "12:00:00", "13:00:00")),
        {"event_id": "stranger", "user_id": "u2", "at": "12:00:00"},
    )
    users = spark.sql(
        f"""select * from values
        ('u1', 'c', 'c1', 'bronze', timestamp'{DAY} 10:00:00', timestamp'{DAY} 12:00:00'),
        ('u1', 'u', 'c2', 'gold', timestamp'{DAY} 12:00:00', timestamp'{DAY} 13:00:00'),
        ('u1', 'd', 'c3', 'gold', timestamp'{DAY} 13:00:00', null)
        as t(user_id, op, event_id, tier, valid_from, valid_to)"""
    )
    found = {row.event_id: (row.tier, row.tier_event_id) for row in attach_tier(clicks, users).collect()}
    assert found == {
        "11:59:59.999": ("bronze", "c1"),
        "12:00:00": ("gold", "c2"),
        "13:00:00": ("unknown", None),
        "stranger": ("unknown", None),
    }


def test_of_equally_viewed_products_the_lesser_id_ranks_first(spark: SparkSession) -> None:
    views = [{"type": "page_view", "product_id": f"p{n:02}", "at": "12:00:30"} for n in range(RANKS + 2)]
    counts = views_in_five_minutes(table(spark, "silver.clicks_enriched", *views, views[5])).toArrow()
    noon = [row for row in ranked(counts).to_pylist() if row["window_start"].strftime("%H:%M") == "12:00"]
    assert [row["product_id"] for row in noon][:3] == ["p05", "p00", "p01"]
    assert [row["rank"] for row in noon] == list(range(1, RANKS + 1))


@pytest.mark.parametrize("name", ["sessions", "order_payments"])
def test_nothing_is_closed_where_nothing_is(lake: Lake, name: str) -> None:
    from lake.tables import create_missing

    job = job_named(name)
    create_missing((*job.reads, *job.writes), lake.settings, 1)
    assert close(job, lake.settings, lake.spark) is None
