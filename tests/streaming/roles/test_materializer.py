"""Materializer: an order placed, paid and cancelled twice has one status, whatever the order and the batches."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import deltalake
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from config.declarations import table_named
from config.settings import Settings
from lake.batch import Batch
from lake.location import table_location
from lake.tables import arrow_schema, read_arrow
from streaming.job import job_named

MIDNIGHT = datetime(2026, 1, 6, tzinfo=UTC)
TIMES = [MIDNIGHT - timedelta(minutes=1), MIDNIGHT, MIDNIGHT + timedelta(days=3)]
ORDERS, STATUS = table_named("silver.orders"), table_named("gold.order_status")
TWICE = [(kind, number) for kind in ("placed", "paid", "cancelled") for number in (1, 2)]
Event = dict[str, Any]


@st.composite
def histories(draw: st.DrawFn) -> list[list[Event]]:
    """Draw the events of two orders, in any order and at equal times too, and cut them into micro-batches."""
    events = [event(order, *what, draw(st.sampled_from(TIMES))) for order in ("o'1", "o2") for what in TWICE]
    order = draw(st.permutations(events))
    cuts = sorted(draw(st.sets(st.integers(1, len(order) - 1), max_size=3)) | {0, len(order)})
    return [order[low:high] for low, high in pairwise(cuts)]


def event(order: str, kind: str, number: int, at: datetime) -> Event:
    status = {"type": "order_placed"} if kind == "placed" else {"type": "order_status_changed", "status": kind}
    return {
        "event_id": f"{order} {kind} {number}",
        "order_id": order,
        "event_time": at,
        "amount_cents": number,
    } | status


def wanted(events: list[Event]) -> list[Event]:
    """Work out the status of each order: the last change by event time, then by event id; placing is no change."""
    found = []
    for order in sorted({each["order_id"] for each in events}):
        changes = [each for each in events if each["order_id"] == order and "status" in each]
        last = max(changes, key=lambda each: (each["event_time"], each["event_id"]))
        found.append(
            {
                "order_id": order,
                "status": last["status"],
                "status_time": last["event_time"],
                "status_event_id": last["event_id"],
                "changes": len(changes),
            }
        )
    return found


def written(spark: SparkSession, home: Settings, batches: list[list[Event]]) -> list[Event]:
    """Write micro-batches as the job does, the last of them twice, as after a kill; return the rows of its table."""
    location = table_location(home, STATUS.name)
    deltalake.DeltaTable.create(str(location), arrow_schema(STATUS), partition_by=STATUS.partitioned_by)
    for number, events in [*enumerate(batches), (len(batches) - 1, batches[-1])]:
        rows = spark.createDataFrame([tuple(each.get(name) for name in ORDERS.stored) for each in events], ORDERS.ddl)
        job_named("order_status").process(Batch(rows, "order_status", number, 1, 1, home))
    return sorted(read_arrow(location).to_pylist(), key=lambda row: str(row["order_id"]))


@hypothesis_settings(max_examples=6, deadline=None)
@given(batches=histories())
def test_the_last_change_wins_and_each_counts_once(
    batches: list[list[Event]], spark: SparkSession, settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = settings.at(Path(tmp_path_factory.mktemp("materialized")))
    assert written(spark, home, batches) == wanted([each for batch in batches for each in batch])
