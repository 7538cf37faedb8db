"""The command `route`."""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated

import typer
from rich.live import Live
from rich.table import Table

from config.settings import load_settings
from config.terminal import Terminal
from config.waiting import waiting_for_kafka
from streaming.kafka.consumer import Progress
from streaming.roles.router.redrive import Redriven, redrive
from streaming.roles.router.router import CLEAN, SOURCE, Counts, run

app = typer.Typer()
console = Terminal()
GONE_SHOWN = 10


@app.command()
def route(
    until_caught_up: Annotated[bool, typer.Option(help="Stop when nothing is left to read.")] = False,
    accept_loss: Annotated[
        str | None, typer.Option(metavar="REASON", help="Go on after records that Kafka deleted before they were read.")
    ] = None,
    dead_letters: Annotated[
        bool, typer.Option("--dead-letters", help="Route the records of dead letters again, after a fix; then stop.")
    ] = False,
) -> None:
    """Route raw clicks to `clicks`, exactly once: drop bots and broken records, redact personal data.

    Run it in several terminals to share the partitions. Ctrl-C stops it after a transaction; the next run continues.

    Example: lakehouse route --until-caught-up
    Example: lakehouse route --dead-letters
    """
    settings = load_settings()
    if dead_letters:
        with console.status("Routing dead letters again …"):
            redriven = redrive(settings)
        _print_redriven(redriven)
        return
    if console.is_terminal:
        with Live(console=console, refresh_per_second=4) as live:
            progress, counts = run(
                settings,
                until_caught_up=until_caught_up,
                accept_loss=accept_loss,
                watch=lambda progress, counts: live.update(_table(progress, counts)),
            )
            live.update("")
    else:
        progress, counts = run(settings, until_caught_up=until_caught_up, accept_loss=accept_loss, watch=_lines())
    console.print(_table(progress, counts))
    console.print(summary(progress, counts))


def summary(progress: Progress, counts: Counts) -> str:
    """Summarize what one process did."""
    rate = progress.records / max(progress.seconds, 1e-9)
    return (
        f"{progress.records:,} records in {progress.seconds:.1f} s ({rate:,.0f}/s): {counts.kept:,} kept, "
        f"{counts.dropped.total():,} dropped, of these {counts.dead:,} to dead_letter; {progress.lag:,} waiting."
    )


def _print_redriven(redriven: Redriven) -> None:
    console.print(f"{redriven.kept:,} → {CLEAN}; they arrive after all others.")
    for reason, count in sorted(redriven.dropped.items()):
        console.print(f"{count:,} dropped, {reason}")
    for reason, count in sorted(redriven.still.items()):
        console.print(f"{count:,} stay dead letters, {reason}")
    if redriven.gone:
        some = ", ".join(f"{SOURCE}/{partition}/{offset}" for partition, offset in redriven.gone[:GONE_SHOWN])
        more = f" and {len(redriven.gone) - GONE_SHOWN:,} more" if len(redriven.gone) > GONE_SHOWN else ""
        console.print(f"{len(redriven.gone):,} are gone, {SOURCE} no longer has their bytes: {some}{more}")


def _table(progress: Progress, counts: Counts) -> Table:
    table = Table("", "records", title="route", title_justify="left")
    table.columns[1].justify = "right"
    if progress.waiting_since:
        table.add_row(waiting_for_kafka(progress.waiting_since), "")
    table.add_row("read", f"{progress.records:,}")
    table.add_row("read, per second", f"{progress.rate:,.0f}")
    table.add_row("waiting", f"{progress.lag:,}")
    table.add_row("kept", f"{counts.kept:,}")
    for reason, count in sorted(counts.dropped.items()):
        table.add_row(f"dropped, {reason}", f"{count:,}")
    return table


def _lines() -> Callable[[Progress, Counts], None]:
    waiting_since: datetime | None = None

    def watch(progress: Progress, counts: Counts) -> None:
        nonlocal waiting_since
        if progress.waiting_since != waiting_since:
            waiting_since = progress.waiting_since
            console.print(f"route: {waiting_for_kafka(waiting_since) if waiting_since else 'Kafka answers again'}")
        if progress.rate:
            console.print(
                f"route: {progress.records:,} records, {progress.rate:,.0f}/s, {counts.kept:,} kept, "
                f"{counts.dropped.total():,} dropped, {progress.lag:,} waiting"
            )

    return watch
