"""The oracle's tables, against answers typed by hand, with the edges of every window and join."""

from typing import Any

import pyarrow as pa
import pytest
import yaml
from event_log import EventLog, moment
from oracle import Oracle, from_rows
from oracle.answers import tables

from config.declarations import TABLES, landed_tables


@pytest.fixture
def log() -> EventLog:
    return EventLog()


def test_a_view_on_the_full_minute_belongs_to_the_minute_it_begins(log: EventLog) -> None:
    log.add("page_view", "a", "12:00:59.999", dwell_ms=1)
    log.add("page_view", "b", "12:01", dwell_ms=10)
    log.add("page_view", "c", "12:01:59.999", dwell_ms=100)
    log.add("page_view", "d", "12:01:30", product_id="p2")
    log.add("click", "e", "12:01:30")
    columns = "window_start window_end product_id tier views dwell_ms late_views"
    assert log.rows("gold.views_per_minute", columns) == [
        ("12:00", "12:01", "p1", "unknown", 1, 1, 0),
        ("12:01", "12:02", "p1", "unknown", 2, 110, 0),
        ("12:01", "12:02", "p2", "unknown", 1, 100, 0),
    ]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("leave", [("12:00", 1, 100, 0)]),
        ("count", [("12:00", 1, 100, 1), ("13:00", 0, 0, 1)]),
        ("merge", [("12:00", 2, 107, 1), ("13:00", 1, 30, 1)]),
    ],
)
def test_late_views_are_left_counted_or_merged(log: EventLog, strategy: str, expected: list[Any]) -> None:
    log.add("page_view", "a", "12:00")
    log.add("page_view", "late", "12:00:30", arrival="12:20", dwell_ms=7)
    log.add("page_view", "late", "12:00:30", arrival="12:21", dwell_ms=7)  # a copy counts no second time
    log.add("page_view", "alone", "13:00", arrival="13:10:00.001", dwell_ms=30)
    assert log.rows("gold.views_per_minute", "window_start views dwell_ms late_views", strategy=strategy) == expected


def test_a_late_view_counts_for_the_tier_it_had(log: EventLog) -> None:
    log.add("user_changed", "c1", "11:00", op="c", before=..., after={"tier": "gold"})
    log.add("page_view", "late", "12:00", arrival="12:20")
    assert log.rows("gold.views_per_minute", "tier late_views", strategy="count") == [("gold", 1)]


def test_with_lateness_off_a_late_view_is_a_view(log: EventLog) -> None:
    log.add("page_view", "late", "12:00", arrival="15:00")
    log.add("page_view", "late", "12:00", arrival="15:00")
    assert log.rows("gold.views_per_minute", "views late_views", late_counts=False) == [(1, 0)]


def test_trending_windows_of_five_minutes_begin_every_minute(log: EventLog) -> None:
    log.add("page_view", "a", "12:04:59.999")
    log.add("page_view", "b", "12:05")
    log.add("page_view", "c", "12:05", product_id="p2")
    log.add("impression", "d", "12:05", product_id="p2")
    expected = [("12:00", 1, "p1", 1)]
    for start in ("12:01", "12:02", "12:03", "12:04"):
        expected += [(start, 1, "p1", 2), (start, 2, "p2", 1)]
    expected += [("12:05", 1, "p1", 1), ("12:05", 2, "p2", 1)]
    assert log.rows("gold.trending", "window_start rank product_id views") == expected
    assert log.rows("gold.trending", "window_start window_end")[0] == ("12:00", "12:05")


def test_trending_has_ten_ranks_and_of_equals_the_lesser_product_first(log: EventLog) -> None:
    for n in range(12):
        log.add("page_view", f"e{n}", "12:00", product_id=f"p{n:02d}")
    log.add("page_view", "more", "12:00", product_id="p11")
    found = [row[1:] for row in log.rows("gold.trending", "window_start rank product_id") if row[0] == "12:00"]
    assert sorted(found) == [(1, "p11"), *((n + 2, f"p{n:02d}") for n in range(9))]


def test_revenue_is_what_was_received_in_the_hour(log: EventLog) -> None:
    log.add("payment_received", "a", "12:59:59.999", amount_cents=1)
    log.add("payment_received", "b", "13:00", amount_cents=20)
    log.add("payment_received", "c", "13:30", amount_cents=300)
    log.add("payment_received", "d", "13:30", amount_cents=4000, merchant_id="m2")
    log.add("payment_received", "f", "13:30", amount_cents=5, type="payment_failed", reason="limit")
    columns = "window_start window_end merchant_id payments revenue_cents late_payments late_revenue_cents"
    assert log.rows("gold.revenue_per_hour", columns) == [
        ("12:00", "13:00", "m1", 1, 1, 0, 0),
        ("13:00", "14:00", "m1", 2, 320, 0, 0),
        ("13:00", "14:00", "m2", 1, 4000, 0, 0),
    ]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("leave", [("m1", 1, 500, 0, 0)]),
        ("count", [("m1", 1, 500, 1, 9), ("m2", 0, 0, 1, 9)]),
        ("merge", [("m1", 2, 509, 1, 9), ("m2", 1, 9, 1, 9)]),
    ],
)
def test_late_payments_are_left_counted_or_merged(log: EventLog, strategy: str, expected: list[Any]) -> None:
    log.add("payment_received", "a", "12:00")
    log.add("payment_received", "b", "12:00", arrival="13:00", amount_cents=9)
    log.add("payment_received", "c", "12:00", arrival="13:00", amount_cents=9, merchant_id="m2")
    columns = "merchant_id payments revenue_cents late_payments late_revenue_cents"
    assert log.rows("gold.revenue_per_hour", columns, strategy=strategy) == expected


def test_a_session_bears_a_gap_of_thirty_minutes_and_not_a_millisecond_more(log: EventLog) -> None:
    log.add("page_view", "a", "12:00")
    log.add("click", "b", "12:00")  # of one moment: one session
    log.add("order_placed", "c", "12:30")
    log.add("order_status_changed", "s", "12:31")  # the shop's doing, not the user's
    log.add("page_view", "d", "13:00:00.001")
    log.add("page_view", "e", "12:10", user_id="u2")
    columns = "user_id session_start session_end events pages converted"
    assert log.rows("gold.sessions", columns) == [
        ("u1", "12:00", "13:00", 3, 1, True),
        ("u1", "13:00:00.001", "13:30:00.001", 1, 1, False),
        ("u2", "12:10", "12:40", 1, 1, False),
    ]
    assert log.rows("gold.sessions", "user_id session_end", closed_until=moment("13:00")) == [("u2", "12:40")]


def test_an_advertisement_is_clicked_within_five_minutes_of_being_shown(log: EventLog) -> None:
    log.add("impression", "i", "12:00")
    log.add("click", "before", "11:59:59.999")
    log.add("click", "at_once", "12:00")
    log.add("click", "last", "12:05")
    log.add("click", "after", "12:05:00.001")
    log.add("click", "other", "12:01", impression_id="i2")
    log.add("impression", "again", "12:05")
    columns = "impression_event_id click_event_id impression_id user_id product_id impression_time click_time"
    assert log.rows("gold.ad_clicks", columns) == [
        ("again", "after", "i1", "u1", "p1", "12:05", "12:05:00.001"),
        ("again", "last", "i1", "u1", "p1", "12:05", "12:05"),
        ("i", "at_once", "i1", "u1", "p1", "12:00", "12:00"),
        ("i", "last", "i1", "u1", "p1", "12:00", "12:05"),
    ]


def test_a_conversion_names_the_last_cart_of_the_day_before(log: EventLog) -> None:
    log.add("add_to_cart", "day", "12:00")
    log.add("add_to_cart", "x", "12:00", user_id="u2")
    log.add("add_to_cart", "z", "2026-01-06T13:00", user_id="u3")
    log.add("add_to_cart", "y1", "2026-01-06T12:00", user_id="u3")
    log.add("add_to_cart", "y2", "2026-01-06T12:00", user_id="u3")
    log.add("add_to_cart", "w", "2026-01-06T11:59", user_id="u3")
    log.add("add_to_cart", "p", "2026-01-06T12:00", user_id="u4", product_id="p2")
    log.add("order_placed", "a", "2026-01-06T12:00", order_id="exactly")
    log.add("order_placed", "b", "2026-01-06T12:00:00.001", order_id="beyond", user_id="u2")
    log.add("order_placed", "c", "2026-01-06T12:00", order_id="several", user_id="u3", amount_cents=7)
    log.add("order_placed", "d", "2026-01-06T12:00", order_id="other_product", user_id="u4")
    columns = "order_id user_id product_id cart_event_id cart_time order_time amount_cents"
    assert log.rows("gold.conversions", columns) == [
        ("exactly", "u1", "p1", "day", "12:00", "2026-01-06T12:00", 500),
        ("several", "u3", "p1", "y2", "2026-01-06T12:00", "2026-01-06T12:00", 7),
    ]


def test_an_order_is_paid_within_an_hour_or_unpaid(log: EventLog) -> None:
    for order in ("at_last", "at_once", "before", "beyond", "several"):
        log.add("order_placed", f"o_{order}", "12:00", order_id=order)
    log.add("payment_received", "a", "13:00", order_id="at_last", amount_cents=400)
    log.add("payment_received", "b", "12:00", order_id="at_once")
    log.add("payment_received", "c", "11:59:59.999", order_id="before")
    log.add("payment_received", "d", "13:00:00.001", order_id="beyond")
    log.add("payment_received", "e", "12:40", order_id="several")
    log.add("payment_received", "g", "12:30", order_id="several", amount_cents=2)
    log.add("payment_received", "f", "12:30", order_id="several", amount_cents=1)
    log.add("payment_received", "h", "12:20", order_id="several", type="payment_failed", reason="limit")
    columns = "order_id user_id merchant_id amount_cents order_time payment_event_id payment_time paid_cents paid"
    unpaid = ("u1", "m1", 500, "12:00", None, None, None, False)
    paid = [
        ("at_last", "u1", "m1", 500, "12:00", "a", "13:00", 400, True),
        ("at_once", "u1", "m1", 500, "12:00", "b", "12:00", 500, True),
        ("several", "u1", "m1", 500, "12:00", "f", "12:30", 1, True),
    ]
    everything = sorted([*paid, ("before", *unpaid), ("beyond", *unpaid)])
    assert log.rows("gold.order_payments", columns) == everything
    assert log.rows("gold.order_payments", columns, closed_until=moment("13:00")) == paid
    assert log.rows("gold.order_payments", columns, closed_until=moment("13:00:00.001")) == everything


def test_the_status_of_an_order_is_the_latest_and_of_equals_the_greatest_id(log: EventLog) -> None:
    log.add("order_status_changed", "b", "12:02", status="shipped")
    log.add("order_status_changed", "c", "12:02", status="delivered")
    log.add("order_status_changed", "d", "12:01", status="paid")
    log.add("order_placed", "e", "12:00", order_id="silent")
    columns = "order_id status status_time status_event_id changes"
    assert log.rows("gold.order_status", columns) == [("o1", "delivered", "12:02", "c", 3)]


def test_a_click_has_the_tier_its_user_held_at_that_moment(log: EventLog) -> None:
    log.add("page_view", "none_yet", "11:59:59.999")
    log.add("page_view", "at_once", "12:00")
    log.add("page_view", "same_time", "12:10")
    log.add("page_view", "deleted", "12:20")
    log.add("page_view", "no_tier", "12:30")
    log.add("page_view", "stranger", "12:00", user_id="u2")
    log.add("user_changed", "c3", "12:10", arrival="18:00", after={"tier": "silver"})
    log.add("user_changed", "c2", "12:10", after={"tier": "gold"})  # the last in the log of those at one time
    log.add("user_changed", "c1", "12:00", after={"tier": "bronze"})
    log.add("user_changed", "c4", "12:20", op="d", after={"tier": "gold"})
    log.add("user_changed", "c5", "12:30", after={"country": "DE"})
    assert log.rows("silver.clicks_enriched", "event_id tier tier_event_id") == [
        ("at_once", "bronze", "c1"),
        ("deleted", "unknown", None),
        ("no_tier", "unknown", None),
        ("none_yet", "unknown", None),
        ("same_time", "gold", "c2"),
        ("stranger", "unknown", None),
    ]
    versions = log.rows("silver.users", "event_id tier valid_from valid_to")
    assert versions[1:3] == [("c2", "gold", "12:10", "12:20"), ("c3", "silver", "12:10", "12:10")]


ARROW = {
    "string": pa.string(), "bigint": pa.int64(), "int": pa.int32(), "boolean": pa.bool_(), "date": pa.date32(),
    "binary": pa.binary(), "timestamp": pa.timestamp("us", "UTC"),
    "struct<partition:int,offset:bigint>": pa.struct({"partition": pa.int32(), "offset": pa.int64()}),
}  # fmt: skip
UNTOLD = {"silver.quarantine": {"event_id", "rules"}}


@pytest.mark.parametrize("name", tables())
def test_every_table_has_the_declared_columns(name: str) -> None:
    declared = yaml.safe_load((TABLES / f"{name}.yaml").read_text())
    landed = yaml.safe_load((TABLES / "_landed.yaml").read_text()) if "topic" in declared else {"columns": {}}
    left_out = {"content_hash"} | UNTOLD.get(name, set())
    columns = {k: v["type"] for k, v in (declared["columns"] | landed["columns"]).items() if k not in left_out}
    found = Oracle(from_rows([])).table(name).schema
    assert {field.name: field.type for field in found} == {k: ARROW[v] for k, v in columns.items()}
    assert found.names == list(columns)


def test_a_window_is_of_the_day_it_began(log: EventLog) -> None:
    log.add("page_view", "a", "2026-01-06T00:01")
    assert [str(day) for (day,) in log.rows("gold.trending", "day")] == ["2026-01-05"] * 3 + ["2026-01-06"] * 2


def test_every_landed_and_every_gold_table_is_known() -> None:
    landed = {table.name for table in landed_tables()}
    assert landed | {file.stem for file in TABLES.glob("gold.*.yaml")} <= set(tables())
