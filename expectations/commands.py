"""Commands of data quality: check."""

import importlib.util
from typing import Annotated

import typer
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from config.errors import LakehouseError
from config.settings import Settings, load_settings, nearest
from config.spark import session
from expectations.ledger_check import LedgerCheck, check_ledger, check_truth
from lake import ledger
from lake.ledger import REDRIVE, TERMS
from local.simulator.truth import read_truth

app = typer.Typer()
console = Console(highlight=False, soft_wrap=True)
LAYERS = ["bronze", "silver", "gold", "serving"]
CHECKS = [*LAYERS, "ledger", "all"]
BEGIN = "Begin with: lakehouse broker start, lakehouse simulate, lakehouse stream run --until-caught-up"


@app.command()
def check(
    what: Annotated[str, typer.Argument(help="bronze, silver, gold, serving, ledger or all.")] = "all",
) -> None:
    """Check tables against their rules, and that nothing was lost or doubled; exit code 1 when something is wrong.

    A rule that only warns is printed and does not count. Data Docs show every rule, kept or not.

    Example: lakehouse check silver
    """
    if what not in CHECKS:
        raise LakehouseError(f"There is no check '{what}': {nearest(what, CHECKS)}")
    settings = load_settings()
    if not ledger.entries(settings):
        console.print(f"There is nothing to check: nothing has been landed yet. {BEGIN}")
        return
    with console.status("Starting Spark …"):
        spark = _session(settings, catalog=what in ("serving", "all"))
    passed = what == "ledger" or _layers_pass(spark, settings, LAYERS if what == "all" else [what])
    if what in ("ledger", "all"):
        passed = _ledger_balances(spark, settings) and passed
    raise typer.Exit(0 if passed else 1)


def _session(settings: Settings, *, catalog: bool) -> SparkSession:
    """Start Spark, with the catalog if it is in use here: only there are the views that dbt made."""
    if catalog and importlib.util.find_spec("lake.catalog"):
        from lake.catalog import connect, in_use

        if in_use(settings):
            return connect(settings, "lakehouse check")
    return session(settings, "lakehouse check")


def _layers_pass(spark: SparkSession, settings: Settings, layers: list[str]) -> bool:
    with console.status("Loading Great Expectations …"):
        from expectations import data_docs
        from expectations import layers as served
    passed = True
    for layer in layers:
        with console.status(f"Checking {layer} …"):
            audits = served.check(spark, settings, layer)
        if not audits:
            console.print(f"{layer}: there is nothing to check yet. {served.MADE_BY[layer]}")
        for audit in audits:
            audit.show(console)
            passed = passed and audit.passed
    if data_docs.index(settings).exists():
        console.print(f"Data Docs: {data_docs.index(settings)}")
    return passed


def _ledger_balances(spark: SparkSession, settings: Settings) -> bool:
    with console.status("Following every record …"):
        verdict = check_ledger(spark, settings)
    console.print(counts_table(verdict))
    faults = [*verdict.faults, *_against_truth(spark, settings, verdict)]
    for fault in faults[:40]:
        console.print(f"✗ {fault}", style="red")
    if not faults:
        waiting = f" {verdict.waiting:,} records wait to be landed." if verdict.waiting else ""
        story = "Every record landed is in bronze once and in exactly one place after it."
        console.print(f"✓ {story}{waiting}", style="green")
    return not faults


def _against_truth(spark: SparkSession, settings: Settings, verdict: LedgerCheck) -> list[str]:
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
        redriven = ledger.total(ledger.entries(settings, [REDRIVE]), "input")
        but = f", but for {redriven:,} that were redriven" if redriven else ""
        story = "Late, duplicate and malformed records are, id by id, those that were generated"
        console.print(f"✓ {story}{but}.", style="green")
    return faults


def counts_table(verdict: LedgerCheck) -> Table:
    """Show what was counted, topic by topic."""
    table = Table("topic", *("log", "bronze", *TERMS), title="Where every record is")
    for column in table.columns[1:]:
        column.justify = "right"
    for topic, counts in sorted(verdict.counts.items()):
        table.add_row(topic, *(f"{counts[term]:,}" for term in ("log", "bronze", *TERMS)))
    return table
