"""The demo's part on the roles: what each did, beside what it must have done."""

from collections import Counter
from datetime import timedelta
from threading import Thread

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table

from config.settings import Settings
from lake.location import table_location
from local.payment_api.behaviour import Behaviour, Mode
from local.payment_api.server import PaymentApi
from local.simulator.plan import Plan
from local.simulator.run import simulate
from local.simulator.truth import Truth
from streaming.roles.reactor.reactor import react
from streaming.roles.router.router import run as route

EDGE_EVENTS = 10_000


def show_gold(console: Console, settings: Settings) -> bool:
    """Print, for each table, what it counted beside what silver holds; say whether all is equal."""
    clicks, orders, payments = (_types(settings, name) for name in ("clicks", "orders", "payments"))
    placed = orders["order_placed"]
    return _beside(
        console,
        ("in silver", "in gold"),
        [
            ("views_per_minute: page views", clicks["page_view"], _sum(settings, "views_per_minute", "views")),
            (
                "revenue_per_hour: payments received",
                payments["payment_received"],
                _sum(settings, "revenue_per_hour", "payments"),
            ),
            ("sessions: clicks and orders placed", clicks.total() + placed, _sum(settings, "sessions", "events")),
            ("order_payments: orders placed", placed, len(_gold(settings, "order_payments"))),
            (
                "order_status: changes of status",
                orders["order_status_changed"],
                _sum(settings, "order_status", "changes"),
            ),
        ],
    )


def show_reactor(console: Console, settings: Settings, truth: Truth) -> bool:
    """Retry the day's failed payments at an API that fails at first; say whether each took effect once."""
    # Fewer than a payment has tries: on a small day they may all be of one payment, which must not be given up.
    failing = settings.reactor.tries - 1
    api = PaymentApi(settings, Behaviour(mode=Mode.FAIL, calls=failing))
    serving = Thread(target=api.serve_forever, kwargs={"poll_interval": 0.1})
    serving.start()
    try:
        with console.status(f"Retrying; the API fails the first {failing} calls …"):
            seen = react(settings, until_caught_up=True, watch=lambda _: None)
        calls, effects = api.store.totals()
    finally:
        api.stop()
        serving.join()
    console.print(
        f"{calls:,} calls, of which the API failed {min(failing, calls)}: "
        f"{seen.counts['accepted']:,} payments accepted, "
        f"{seen.counts['declined']:,} declined, {seen.counts['copies']:,} copies left alone."
    )
    return _beside(
        console,
        ("in the log", "at the API"),
        [("failed payments that took effect, each once", truth.events["payments"]["payment_failed"], effects)],
    )


def show_edge(console: Console, settings: Settings, seed: int) -> bool:
    """Route the raw clicks of another day; say whether all that had to leave has left."""
    plan = Plan(seed=seed + 1, events=EDGE_EVENTS, start=Plan().start + timedelta(days=1), rate=100_000, edge=True)
    truth = simulate(settings, plan, console)
    with console.status("Routing …"):
        progress, counts = route(settings, until_caught_up=True, watch=lambda *_: None)
    kinds = Counter(truth.bots["clicks_raw"].values())
    console.print(
        f"{counts.kept:,} of {progress.records:,} raw clicks went on, redacted. Of the {kinds['rate']:,} pages of bots "
        f"that only their pace betrays {counts.dropped['bot: rate']:,} left: it takes some pages to tell a pace."
    )
    return _beside(
        console,
        ("generated", "left"),
        [
            ("raw clicks", truth.records["clicks_raw"], progress.records),
            ("pages of bots that say so", kinds["agent"], counts.dropped["bot: agent"]),
        ],
    )


def _beside(console: Console, heads: tuple[str, str], rows: list[tuple[str, int, int]]) -> bool:
    table = Table("", *heads, "")
    for column in table.columns[1:3]:
        column.justify = "right"
    for what, wanted, found in rows:
        table.add_row(what, f"{wanted:,}", f"{found:,}", "[green]✓[/]" if wanted == found else "[red]✗[/]")
    console.print(table)
    return all(wanted == found for _, wanted, found in rows)


def _types(settings: Settings, name: str) -> Counter[str]:
    return Counter(_read(settings, f"silver.{name}", "type")["type"].to_pylist())


def _sum(settings: Settings, name: str, column: str) -> int:
    return int(pc.sum(_gold(settings, name)[column]).as_py() or 0)


def _gold(settings: Settings, name: str) -> pa.Table:
    return _read(settings, f"gold.{name}")


def _read(settings: Settings, name: str, *columns: str) -> pa.Table:
    table = deltalake.DeltaTable(str(table_location(settings, name)))
    return table.to_pyarrow_dataset().to_table(columns=list(columns) or None, use_threads=False)
