"""The command `compare`."""

import json
from typing import Annotated, Any

import typer
from rich.table import Table

from config.declarations import table_named
from config.errors import LakehouseError
from config.settings import load_settings, nearest
from config.terminal import Terminal
from expectations.parity.reasons import Explained

app = typer.Typer()
console = Terminal()


@app.command()
def compare(
    table: Annotated[str | None, typer.Option(help="Only this table, like gold.sessions.")] = None,
    window: Annotated[str | None, typer.Option(help="Only rows that become final on this day: 2026-01-05.")] = None,
    show_rows: Annotated[int, typer.Option(help="Show this many differing rows per table, with their reasons.")] = 0,
) -> None:
    """Compare Lambda with Kappa, row by row, over the rows that are final in both; exit code 1 if a row has no reason.

    Example: lakehouse compare --table gold.sessions --show-rows 5
    """
    from batch.comparison_side import batch_side
    from config.spark import session
    from expectations.parity.comparison import comparable_tables, compared, keep
    from expectations.parity.sides import generation_side, on_day
    from lake.generations import serving
    from streaming.job import jobs
    from streaming.previous_code import why_unavailable

    # Only rows of gold become final on a day.
    names = [each.name for each in comparable_tables() if not window or each.final_at or each.changed_at]
    if table and table not in names:
        raise LakehouseError(f"There is no comparable table '{table}': {nearest(table, names)}")
    settings = load_settings()
    with console.status("Starting Spark …") as status:
        spark = session(settings, "lakehouse compare")
        batch = batch_side(spark, settings)
        if batch is None:
            raise LakehouseError("There is no batch run to compare with yet.", "lakehouse batch run")
        stream = generation_side(spark, settings, serving(settings), "stream")
        if window:
            batch, stream = on_day(batch, window), on_day(stream, window)
        found = compared(
            settings,
            batch,
            stream,
            only=[table] if table else names,
            watch=lambda what: status.update(f"Comparing {what} …"),
        )
    if not table and not window:
        keep(settings, found)
    show(found, console)
    notes = [each.note for each in found.values() if each.note]
    for note in (*why_unavailable(jobs().values(), settings, serving(settings)), *notes):
        console.print(f"! {note}", style="yellow")
    for name, explained in found.items() if show_rows else ():
        _rows(name, explained, show_rows)
    raise typer.Exit(1 if any(each.unexplained for each in found.values()) else 0)


def show(found: dict[str, Explained], console: Terminal) -> None:
    """Print, for each table, the number of equal rows and the reasons of the differing ones."""
    table = Table("table", "equal", "differing", "reasons", "final before", title="Lambda against Kappa")
    for column in table.columns[1:3]:
        column.justify = "right"
    for name, explained in found.items():
        parity = explained.parity
        reasons = ", ".join(f"{reason}: {rows:,}" for reason, rows in sorted(explained.by_reason.items()))
        closed_until = f"{parity.closed_until:%Y-%m-%d %H:%M:%S}" if parity.closed_until else "–"
        table.add_row(name, f"{parity.equal:,}", f"{parity.rows:,}", reasons or "–", closed_until)
    console.print(table)
    unexplained = sum(each.unexplained for each in found.values())
    differing = sum(each.parity.rows for each in found.values())
    if unexplained:
        console.print(f"✗ {unexplained:,} rows differ without a reason: --show-rows 10 shows them.", style="red")
    elif differing:
        console.print(f"✓ {differing:,} rows differ, each for a reason traced to its events.", style="green")
    else:
        console.print("✓ Lambda and Kappa are equal, row by row.", style="green")


def _rows(name: str, explained: Explained, limit: int) -> None:
    key = table_named(name).key
    rows = explained.rows.orderBy("reason", *key).limit(limit).collect()
    if not rows:
        return
    table = Table("key", "batch", "stream", "reason", "events", title=name)
    for row in rows:
        table.add_row(
            ", ".join(str(row[column]) for column in key),
            _differing_values(row["left"], row["right"]),
            _differing_values(row["right"], row["left"]),
            row["reason"],
            ", ".join((row["events"] or [])[:3]),
        )
    console.print(table)
    console.print("Trace an event: lakehouse trace EVENT_ID")


def _differing_values(row: Any, other: Any) -> str:
    """Format the values of a row that differ from the other row."""
    if row is None:
        return "–"
    values = row.asDict()
    differing = {name: value for name, value in values.items() if other is None or other[name] != value}
    return json.dumps(differing, default=str)
