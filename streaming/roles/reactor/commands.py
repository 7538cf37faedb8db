"""Commands of the reactor: react."""

import time
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from config.settings import load_settings
from streaming.roles.reactor.reactor import Seen, Watch, react

app = typer.Typer()
console = Console(highlight=False, soft_wrap=True)
LINE_SECONDS = 5.0
TOLD = ("accepted", "declined", "abandoned", "copies", "other events", "dead letters", "calls")


@app.command("react")
def react_command(
    until_caught_up: Annotated[bool, typer.Option(help="Stop when nothing is left to retry.")] = False,
) -> None:
    """Retry failed payments at the payment API and tell the outcomes; Ctrl-C stops it, the next run goes on there.

    Each payment takes effect once, by its event id as the idempotency key. While the API is down nothing is given up.

    Example: lakehouse react --until-caught-up
    """
    settings = load_settings()
    if not console.is_terminal:
        last = react(settings, until_caught_up=until_caught_up, watch=_print_lines())
    else:
        with Live(console=console, refresh_per_second=4) as live:
            last = react(settings, until_caught_up=until_caught_up, watch=lambda seen: live.update(_table(seen)))
    console.print(_summary(last))


def _summary(seen: Seen) -> str:
    counts = ", ".join(f"{seen.counts[name]:,} {name}" for name in TOLD)
    return f"reactor: {seen.progress.records:,} records in {seen.progress.seconds:.1f} s: {counts}."


def _state(seen: Seen) -> str:
    return f"waiting for the API, {seen.open_for:.0f} s" if seen.open_for else "running"


def _table(seen: Seen) -> Table:
    table = Table("state", "records", "records/s", "waiting", *TOLD)
    progress = seen.progress
    counts = (f"{seen.counts[name]:,}" for name in TOLD)
    table.add_row(_state(seen), f"{progress.records:,}", f"{progress.rate:,.0f}", f"{progress.lag:,}", *counts)
    return table


def _print_lines() -> Watch:
    printed = 0.0

    def watch(seen: Seen) -> None:
        nonlocal printed
        if time.monotonic() - printed >= LINE_SECONDS:
            printed = time.monotonic()
            progress = seen.progress
            console.print(
                f"reactor: {_state(seen)}, {progress.records:,} records, "
                f"{progress.rate:,.0f}/s, {progress.lag:,} waiting"
            )

    return watch
