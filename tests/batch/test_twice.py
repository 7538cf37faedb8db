"""Events that come twice: orders placed, paid and cancelled again, ids used in another hour; and nobody has a tier.

Stream and batch layer read them in two steps, with the second placing of an order on another day; both equal the
oracle, and the gate lets the batch run pass. No user is known: the topic `users` never had a record.
"""

from typing import Any

import pytest
from event_log import FORMS, event, moment
from gold import catch_up, differences, rows_of
from handmade import Lake, Log
from pyspark.sql import SparkSession
from recomputed import published_differences, recompute

from batch import segments
from config.declarations import table_named, topics
from config.settings import Settings
from streaming.job import job_named

JOBS = ("clicks_enriched", "ad_clicks", "conversions", "order_payments", "order_status")
MONDAY, WEDNESDAY, FRIDAY = "2026-01-05T", "2026-01-07T", "2026-01-09T"


def sent(log: Log, kind: str, event_id: str, clock: str, arrival: str | None = None, **fields: Any) -> None:
    topic, made = FORMS[kind][0], event(kind, event_id, clock, **fields)
    log.send(made, topic, moment(arrival) if arrival else None, key=made[str(topics()[topic].key)])


@pytest.fixture
def steps(log: Log) -> list[int]:
    """Fill the log; return how many records there are after each step."""
    sent(log, "impression", "shown", f"{MONDAY}12:58")
    sent(log, "click", "again", f"{MONDAY}12:59:59.999")
    sent(log, "click", "again", f"{MONDAY}13:00")  # the same id, in the hour after: another event
    for number, clock in enumerate(("12:00", "12:30")):
        sent(log, "add_to_cart", f"cart{number}", f"{MONDAY}{clock}")
    for event_id in ("b", "a"):  # at one time: of these the lesser id wins
        sent(log, "order_placed", event_id, f"{MONDAY}12:40", amount_cents=ord(event_id))
    for event_id in ("q", "p"):
        sent(log, "payment_received", event_id, f"{MONDAY}13:10")
    for event_id in ("cancelled", "cancelled again"):
        sent(log, "order_status_changed", event_id, f"{MONDAY}13:20", status="cancelled")
    sent(log, "order_placed", "first seen", f"{WEDNESDAY}09:00", order_id="o2")
    first = len(log.records)
    sent(log, "add_to_cart", "cart2", f"{FRIDAY}12:10")
    sent(log, "order_placed", "on another day", f"{FRIDAY}12:20", amount_cents=7)
    sent(log, "payment_received", "r", f"{FRIDAY}12:30")
    # Late: the stream leaves it out; for the batch layer the order moves from Wednesday to Monday.
    sent(log, "order_placed", "first placed", f"{MONDAY}08:00", f"{FRIDAY}12:31", order_id="o2")
    sent(log, "page_view", "far", f"{FRIDAY}18:00")
    sent(log, "payment_received", "far", f"{FRIDAY}18:00", order_id="stranger")
    sent(log, "order_status_changed", "far", f"{FRIDAY}18:00", order_id="o3")
    return [first, len(log.records)]


def test_stream_and_batch_keep_the_row_that_the_table_declares(lake: Lake, log: Log, steps: list[int]) -> None:
    low = 0
    for high in steps:
        lake.land(log.records[low:high])
        catch_up(lake, JOBS)
        result = recompute(lake)
        assert result.publication, result.audit.failures
        assert published_differences(lake, log.records[:high]) == {}
        low = high
    assert not result.full
    assert differences(lake, log.records, [job_named(name).writes[0] for name in JOBS]) == {}
    placed = rows_of(lake.settings, "gold.order_payments", ["order_id", "order_event_id", "payment_event_id"])
    assert "{'order_id': 'o1', 'order_event_id': 'a', 'payment_event_id': 'p'}" in placed


def test_a_table_that_nothing_has_landed_in_has_its_columns(spark: SparkSession, fresh_home: Settings) -> None:
    for name in ("silver.users", "silver.clicks", "gold.sessions"):
        table = table_named(name)
        computed = [column for column in table.columns if column not in table.stored]
        assert segments.read(spark, fresh_home, name, {}).columns == [*table.stored, *computed]
