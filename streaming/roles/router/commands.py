"""The command `route`."""

from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from config.settings import load_settings
from streaming.kafka.consumer import Progress
from streaming.roles.router.router import Counts, run

app = typer.Typer()
console = Console(highlight=False, soft_wrap=True)


@app.command()
def route(
    until_caught_up: Annotated[bool, typer.Option(help="Stop when nothing is left to read.")] = False,
) -> None:
    """Route raw clicks to `clicks`, exactly once: drop bots and broken records, redact personal data.

    Run it in several terminals to share the partitions. Ctrl-C stops it after a transaction; the next run continues.

    Example: lakehouse route --until-caught-up
    """
    settings = load_settings()
    if console.is_terminal:
        with Live(console=console, refresh_per_second=4) as live:
            progress, counts = run(
                settings,
                until_caught_up=until_caught_up,
                watch=lambda progress, counts: live.update(_table(progress, counts)),
            )
            live.update("")
    else:
        progress, counts = run(settings, until_caught_up=until_caught_up, watch=_print)
    console.print(_table(progress, counts))
    console.print(summary(progress, counts))


def summary(progress: Progress, counts: Counts) -> str:
    """Summarize what one process did."""
    rate = progress.records / max(progress.seconds, 1e-9)
    lines = [
        f"{progress.records:,} records in {progress.seconds:.1f} s ({rate:,.0f}/s): {counts.kept:,} kept, "
        f"{counts.dropped.total():,} dropped, of these {counts.dead:,} to dead_letter; {progress.lag:,} waiting."
    ]
    if progress.expired:
        lines.append(f"Retention had deleted {progress.expired:,} records of clicks_raw before they were read.")
    return "\n".join(lines)


def _table(progress: Progress, counts: Counts) -> Table:
    table = Table("", "records", title="route", title_justify="left")
    table.columns[1].justify = "right"
    table.add_row("read", f"{progress.records:,}")
    table.add_row("read, per second", f"{progress.rate:,.0f}")
    table.add_row("waiting", f"{progress.lag:,}")
    table.add_row("kept", f"{counts.kept:,}")
    for reason, count in sorted(counts.dropped.items()):
        table.add_row(f"dropped, {reason}", f"{count:,}")
    return table


def _print(progress: Progress, counts: Counts) -> None:
    if progress.rate:
        console.print(
            f"route: {progress.records:,} records, {progress.rate:,.0f}/s, {counts.kept:,} kept, "
            f"{counts.dropped.total():,} dropped, {progress.lag:,} waiting"
        )
