"""Commands of data quality: check."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from config.errors import LakehouseError
from config.settings import load_settings, nearest
from config.spark import session
from expectations.conservation import Verdict, check_ledger, check_truth
from local.simulator.truth import read_truth
from streaming.ledger import TERMS

app = typer.Typer()
console = Console(highlight=False, soft_wrap=True)
CHECKS = ["ledger", "all"]


@app.command()
def check(what: Annotated[str, typer.Argument(help="ledger or all.")] = "all") -> None:
    """Prove that nothing was lost or doubled; exit code 1 when something does not add up.

    Example: lakehouse check ledger
    """
    if what not in CHECKS:
        raise LakehouseError(f"There is no check '{what}': {nearest(what, CHECKS)}")
    settings = load_settings()
    with console.status("Following every record …"):
        spark = session(settings, "lakehouse check")
        verdict = check_ledger(spark, settings)
        truth = read_truth(settings)
        faults = check_truth(spark, settings, truth) if truth.records and verdict.counts else []
    console.print(counts_table(verdict) if verdict.counts else "The ledger is empty: nothing has been landed yet.")
    for fault in [*verdict.faults, *faults][:40]:
        console.print(f"✗ {fault}", style="red")
    if verdict.faults or faults:
        raise typer.Exit(1)
    console.print("✓ Every record of the log is in bronze once and in exactly one place after it.", style="green")
    if truth.records and verdict.counts:
        console.print("✓ Late, duplicate and malformed records are, id by id, those that were generated.", style="green")


def counts_table(verdict: Verdict) -> Table:
    """Show what was counted, topic by topic."""
    table = Table("topic", *("log", "bronze", *TERMS), title="Where every record is")
    for column in table.columns[1:]:
        column.justify = "right"
    for topic, counts in sorted(verdict.counts.items()):
        table.add_row(topic, *(f"{counts[term]:,}" for term in ("log", "bronze", *TERMS)))
    return table
