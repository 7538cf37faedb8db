"""Command of the simulator: simulate."""

import time
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.table import Table

from config.errors import LakehouseError
from config.settings import load_settings
from config.terminal import Terminal
from local.simulator.plan import Plan
from local.simulator.run import simulate
from local.simulator.truth import Truth, truth_file

__all__ = ["app", "simulate", "summary"]

app = typer.Typer()
console = Terminal()
_DAY = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"]
# Typer's times have no zone; they are taken as UTC below.
_START = Plan().start.replace(tzinfo=None)


@app.command("simulate")
def simulate_command(
    seed: Annotated[int, typer.Option(help="The same seed and options give the same events.")] = 7,
    events: Annotated[int, typer.Option(help="Valid events over all topics; defects are extra.")] = 100_000,
    start: Annotated[
        datetime, typer.Option(help="First day of the period, or its start time in UTC.", formats=_DAY)
    ] = _START,
    days: Annotated[int, typer.Option(help="Length of the period in days of event time.")] = 1,
    rate: Annotated[float | None, typer.Option(help="Records per second; default: as fast as possible.")] = None,
    late: Annotated[float, typer.Option(help="Share of clicks, orders and payments that are late.")] = 0.01,
    duplicates: Annotated[float, typer.Option(help="Share of events sent again.")] = 0.01,
    malformed: Annotated[float, typer.Option(help="Share of malformed records.")] = 0.002,
    bots: Annotated[float, typer.Option(help="Share of bot clicks, with --edge only.")] = 0.05,
    hot_key: Annotated[float, typer.Option(help="Share of page views and impressions of one product.")] = 0.05,
    edge: Annotated[bool, typer.Option(help="Write raw clicks to clicks_raw instead of clean ones to clicks.")] = False,
    live: Annotated[int | None, typer.Option(help="Send events in real time for this many seconds.")] = None,
) -> None:
    """Write simulated shop events to Kafka, and a truth file that lists what they are.

    Example: lakehouse simulate --events 500000 --days 2 --late 0.02

    Example: lakehouse simulate --events 20000 --rate 500

    Example: lakehouse simulate --events 1000 --live 60
    """
    if live is not None and start != _START:
        raise LakehouseError("--live and --start cannot be combined: a live period starts now.")
    plan = Plan(
        seed=seed,
        events=events,
        start=start.replace(tzinfo=UTC) if live is None else datetime.now(UTC),
        days=days,
        rate=rate,
        late=late,
        duplicates=duplicates,
        malformed=malformed,
        bots=bots,
        hot_key=hot_key,
        edge=edge,
        live=live,
    )
    settings = load_settings()
    begin = time.monotonic()
    truth = simulate(settings, plan, console)
    seconds = time.monotonic() - begin
    console.print(summary(truth))
    records = sum(truth.records.values())
    console.print(f"{records:,} records in {seconds:.1f} s. Truth: {truth_file(settings, plan)}")
    if truth.stopped:
        console.print("Stopped early; the truth covers the records that were sent.")


def summary(truth: Truth) -> Table:
    """Return a table of the written records: one row per topic, one column per count."""
    table = Table(title="Written to Kafka", title_justify="left")
    table.add_column("topic")
    columns = ("records", "events", "late", "duplicates", "malformed", "bots")
    for column in columns:
        table.add_column(column, justify="right")
    totals = [0] * len(columns)
    for topic, records in sorted(truth.records.items()):
        defects = (truth.late, truth.duplicates, truth.malformed, truth.bots)
        row = [records, sum(truth.events.get(topic, {}).values()), *(len(defect.get(topic, ())) for defect in defects)]
        totals = [total + number for total, number in zip(totals, row, strict=True)]
        table.add_row(topic, *(f"{number:,}" for number in row))
    table.add_section()
    table.add_row("all", *(f"{total:,}" for total in totals))
    return table
