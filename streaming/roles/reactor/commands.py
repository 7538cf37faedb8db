"""The command `react`."""

import time
from typing import Annotated

import typer
from rich.live import Live
from rich.table import Table

from config.settings import load_settings
from config.terminal import Terminal
from config.waiting import waiting_for_kafka
from streaming.roles.reactor.reactor import OnProgress, ReactorProgress, react

app = typer.Typer()
console = Terminal()
LINE_SECONDS = 5.0
COUNTERS = ("accepted", "declined", "abandoned", "copies", "other events", "dead letters", "calls")


@app.command("react")
def react_command(
    until_caught_up: Annotated[bool, typer.Option(help="Stop when nothing is left to retry.")] = False,
    accept_loss: Annotated[
        str | None, typer.Option(metavar="REASON", help="Go on after records that Kafka deleted before they were read.")
    ] = None,
) -> None:
    """Retry failed payments at the payment API and publish the outcomes; after Ctrl-C the next run continues.

    Each payment takes effect once: its event id is the idempotency key. An API outage costs no payment a try.

    Example: lakehouse react --until-caught-up
    """
    settings = load_settings()
    if not console.is_terminal:
        last = react(settings, until_caught_up=until_caught_up, accept_loss=accept_loss, watch=_print_lines())
    else:
        with Live(console=console, refresh_per_second=4) as live:
            last = react(
                settings,
                until_caught_up=until_caught_up,
                accept_loss=accept_loss,
                watch=lambda reactor: live.update(_table(reactor)),
            )
    console.print(_summary(last))


def _summary(reactor: ReactorProgress) -> str:
    counts = ", ".join(f"{reactor.counts[name]:,} {name}" for name in COUNTERS)
    return f"reactor: {reactor.progress.records:,} records in {reactor.progress.seconds:.1f} s: {counts}."


def _state(reactor: ReactorProgress) -> str:
    if reactor.progress.waiting_since:
        return waiting_for_kafka(reactor.progress.waiting_since)
    return f"waiting for the API, {reactor.open_for:.0f} s" if reactor.open_for else "running"


def _table(reactor: ReactorProgress) -> Table:
    table = Table("state", "records", "records/s", "waiting", *COUNTERS)
    progress = reactor.progress
    counts = (f"{reactor.counts[name]:,}" for name in COUNTERS)
    table.add_row(_state(reactor), f"{progress.records:,}", f"{progress.rate:,.0f}", f"{progress.lag:,}", *counts)
    return table


def _print_lines() -> OnProgress:
    printed = 0.0

    def watch(reactor: ReactorProgress) -> None:
        nonlocal printed
        if time.monotonic() - printed >= LINE_SECONDS:
            printed = time.monotonic()
            progress = reactor.progress
            console.print(
                f"reactor: {_state(reactor)}, {progress.records:,} records, "
                f"{progress.rate:,.0f}/s, {progress.lag:,} waiting"
            )

    return watch
