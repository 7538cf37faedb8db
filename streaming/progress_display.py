"""Progress on a console: a live table on a terminal, elsewhere a line for each micro-batch."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.live import Live
from rich.table import Table

from config.errors import LakehouseError
from config.terminal import Terminal
from streaming.progress import OnProgress, Progress


@contextmanager
def shown(console: Terminal) -> Iterator[OnProgress]:
    """Show the progress of jobs: in a live table on a terminal, elsewhere with a line for each batch."""
    if not console.is_terminal:
        yield _print_batches(console)
        return
    with Live(console=console, refresh_per_second=4) as live:
        yield lambda progress: live.update(_table(progress))


def _table(progress: list[Progress]) -> Table:
    table = Table("job", "state", "batch", "records", "records/s", "waiting", "last batch")
    for each in progress:
        table.add_row(
            each.job,
            "first batch …" if each.batch < 0 and each.state == "running" else each.state,
            str(max(each.batch, 0)),
            f"{each.done:,}",
            f"{each.rows_per_second:,.0f}",
            f"{each.waiting:,}",
            f"{each.batch_seconds:.1f} s",
        )
    return table


def _print_batches(console: Terminal) -> OnProgress:
    printed: dict[str, int] = {}
    states: dict[str, str] = {}

    def on_progress(progress: list[Progress]) -> None:
        for each in progress:
            if each.state != states.setdefault(each.job, "running"):
                states[each.job] = each.state
                console.print(f"{each.job}: {each.state}")
            if each.batch != printed.get(each.job, -1):
                printed[each.job] = each.batch
                console.print(
                    f"{each.job}: batch {each.batch}, {each.done:,} records, "
                    f"{each.rows_per_second:,.0f}/s, {each.waiting:,} waiting"
                )

    return on_progress


def print_failure(console: Terminal, error: LakehouseError) -> None:
    """Print why a job failed while the others keep running."""
    console.lines(error.problem, style="red")
    console.lines(error.hint)
