"""Step: run the jobs from silver to gold, and compare what each gold table counted with silver."""

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

from config.settings import Settings
from lake.costs import record_cost, total
from lake.location import table_location
from lake.tables import read_arrow
from operations.demo.context import Context
from operations.demo.step import Step
from operations.demo.table import show_equal
from streaming.commands import close_open, run_measured
from streaming.job import jobs
from streaming.runner import Runner


def run(context: Context) -> bool:
    """Run every job that reads tables, close what is still open; return whether gold counted every event of silver."""
    console, settings = context.console, context.settings
    chosen = [job for job in jobs().values() if job.reads]
    # The events have landed already, but what is compared with the batch layer later is the answer of streams.
    runner = Runner(settings, context.spark, from_first=True)
    _, cost = run_measured(runner, chosen, until_caught_up=True, console=console)
    landed = sum(context.truth.records.values())
    record_cost(settings, "stream", ", ".join(jobs()), landed, total([*context.stream_costs, cost]))
    console.print("No event comes after the day, so the watermark stops: close the windows that are still open.")
    close_open(settings, context.spark, chosen, console)
    clicks, orders, payments = (_types(settings, name) for name in ("clicks", "orders", "payments"))
    placed, received = orders["order_placed"], payments["payment_received"]
    return show_equal(
        console,
        ("in silver", "in gold"),
        [
            [
                ("views_per_minute: page views", clicks["page_view"], _sum(settings, "views_per_minute", "views")),
                ("revenue_per_hour: payments received", received, _sum(settings, "revenue_per_hour", "payments")),
                ("sessions: clicks and orders placed", clicks.total() + placed, _sum(settings, "sessions", "events")),
                ("order_payments: orders placed", placed, len(_read(settings, "gold.order_payments"))),
                (
                    "order_status: changes of status",
                    orders["order_status_changed"],
                    _sum(settings, "order_status", "changes"),
                ),
            ]
        ],
    )


def _types(settings: Settings, name: str) -> Counter[str]:
    return Counter(_read(settings, f"silver.{name}", "type")["type"].to_pylist())


def _sum(settings: Settings, name: str, column: str) -> int:
    return int(pc.sum(_read(settings, f"gold.{name}", column)[column]).as_py() or 0)


def _read(settings: Settings, name: str, *columns: str) -> pa.Table:
    return read_arrow(table_location(settings, name), columns=columns)


step = Step(title="Gold: windows, joins and status; every event of silver is counted", part="stream", run=run)
