"""Commands of data quality: check."""

from typing import Annotated

import typer
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from config.errors import LakehouseError
from config.settings import Settings, load_settings, nearest
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
    if not verdict.counts:
        console.print("The ledger is empty: nothing has been landed yet. Begin with: lakehouse stream run")
        return
    console.print(counts_table(verdict))
    faults = [*verdict.faults, *_against_truth(spark, settings, verdict)]
    for fault in faults[:40]:
        console.print(f"✗ {fault}", style="red")
    if faults:
        raise typer.Exit(1)
    waiting = f" {verdict.waiting:,} records wait to be landed." if verdict.waiting else ""
    console.print(f"✓ Every record landed is in bronze once and in exactly one place after it.{waiting}", style="green")


def _against_truth(spark: SparkSession, settings: Settings, verdict: Verdict) -> list[str]:
    """Compare with the truth where there is one and all of it has been landed."""
    try:
        truth = read_truth(settings)
    except LakehouseError as error:
        console.print(f"Not compared with the truth: {error.problem}")
        return []
    if not truth.records:
        return []
    if verdict.waiting:
        console.print(f"Not compared with the truth: {verdict.waiting:,} records wait. First: lakehouse stream run")
        return []
    faults = check_truth(spark, settings, truth)
    if not faults:
        console.print(
            "✓ Late, duplicate and malformed records are, id by id, those that were generated.", style="green"
        )
    return faults


def counts_table(verdict: Verdict) -> Table:
    """Show what was counted, topic by topic."""
    table = Table("topic", *("log", "bronze", *TERMS), title="Where every record is")
    for column in table.columns[1:]:
        column.justify = "right"
    for topic, counts in sorted(verdict.counts.items()):
        table.add_row(topic, *(f"{counts[term]:,}" for term in ("log", "bronze", *TERMS)))
    return table
