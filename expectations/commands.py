"""The command `check`."""

import importlib.util
from typing import Annotated

import typer
from pyspark.sql import SparkSession
from rich.table import Table

from config.errors import LakehouseError
from config.settings import Settings, load_settings, nearest
from config.spark import session
from config.terminal import Terminal
from expectations.ledger_check import LedgerCheck, check_ledger, check_truth
from lake import ledger
from lake.ledger import REDRIVE, TERMS
from local.simulator.truth import read_truth

app = typer.Typer()
console = Terminal()
LAYERS = ["bronze", "silver", "gold", "serving"]
CHECKS = [*LAYERS, "ledger", "all"]
BEGIN = "Start with: lakehouse broker start, lakehouse simulate, lakehouse stream run --until-caught-up"


@app.command()
def check(
    what: Annotated[str, typer.Argument(help="bronze, silver, gold, serving, ledger or all.")] = "all",
    full: Annotated[bool, typer.Option("--full", help="ledger: also read again what was proved before.")] = False,
    docs: Annotated[
        bool, typer.Option("--docs", help="Also write the results as Great Expectations' Data Docs.")
    ] = False,
) -> None:
    """Check tables against their rules, and that no record was lost or duplicated; exit code 1 if a check fails.

    A broken rule of severity `warn` is printed and does not fail the check. With --docs, Data Docs show the result of
    every rule, and the Great Expectations project in the home has the suites, the results and a checkpoint per layer.
    The ledger check follows the records since its last proof; earlier ones only if anything but appends has happened
    to the tables, or with --full, which also finds damaged files.

    Example: lakehouse check silver
    """
    if what not in CHECKS:
        raise LakehouseError(f"There is no check '{what}': {nearest(what, CHECKS)}")
    settings = load_settings()
    if not ledger.entries(settings):
        console.print(f"There is nothing to check: no record has been landed yet. {BEGIN}")
        return
    with console.status("Starting Spark …"):
        spark = _session(settings, catalog=what in ("serving", "all"))
    passed = what == "ledger" or _layers_pass(spark, settings, LAYERS if what == "all" else [what], docs=docs)
    if what in ("ledger", "all"):
        passed = _ledger_balances(spark, settings, full=full) and passed
    raise typer.Exit(0 if passed else 1)


def _session(settings: Settings, *, catalog: bool) -> SparkSession:
    """Start Spark, with the catalog if this home uses it: it contains the views that dbt builds."""
    if catalog and importlib.util.find_spec("lake.catalog"):
        from lake.catalog import connect, in_use

        if in_use(settings):
            return connect(settings, "lakehouse check")
    return session(settings, "lakehouse check")


def _layers_pass(spark: SparkSession, settings: Settings, layers: list[str], *, docs: bool) -> bool:
    from expectations import layers as layer_checks

    audits = []
    for layer in layers:
        with console.status(f"Checking {layer} …"):
            of_layer = layer_checks.check(spark, settings, layer)
        if not of_layer:
            console.print(f"{layer}: there is nothing to check yet. {layer_checks.WRITTEN_BY[layer]}")
        for audit in of_layer:
            audit.show(console)
        audits += of_layer
    if docs and audits:
        with console.status("Writing Data Docs …"):
            from expectations import data_docs  # imports Great Expectations, which takes seconds

            data_docs.publish(settings, audits)
        console.print(f"Data Docs: {data_docs.index(settings)}")
    return all(audit.passed for audit in audits)


def _ledger_balances(spark: SparkSession, settings: Settings, *, full: bool) -> bool:
    with console.status("Following every record …"):
        ledger_check = check_ledger(spark, settings, full=full)
    console.print(counts_table(ledger_check))
    _show_scope(ledger_check)
    faults = [*ledger_check.faults, *_truth_faults(spark, settings, ledger_check)]
    for fault in faults[:40]:
        console.print(f"✗ {fault}", style="red")
    if not faults:
        waiting = f" {ledger_check.waiting:,} records wait to be landed." if ledger_check.waiting else ""
        balanced = "Every landed record is in bronze once and in exactly one table after it."
        console.print(f"✓ {balanced}{waiting}", style="green")
    return not faults


def _show_scope(ledger_check: LedgerCheck) -> None:
    """Print which records were followed, and which offsets are lost."""
    if ledger_check.not_covered:
        console.print(f"Checked all records again: {ledger_check.not_covered}.")
    if ledger_check.proved_at:
        at = f"{ledger_check.proved_at:%Y-%m-%d %H:%M:%S}"
        console.print(f"Followed: the records since the proof of {at}. With --full: all.")
    for loss in ledger_check.losses:
        console.print(f"! Lost before landing: {loss}", style="yellow", markup=False)


def _truth_faults(spark: SparkSession, settings: Settings, ledger_check: LedgerCheck) -> list[str]:
    """Compare with the simulator's truth, if there is one and all its records have been landed."""
    try:
        truth = read_truth(settings)
    except LakehouseError as error:
        console.print(f"Not compared with the truth: {error.problem}")
        return []
    if not truth.records:
        return []
    if ledger_check.waiting:
        console.print(f"Not compared with the truth: {ledger_check.waiting:,} records wait. Run: lakehouse stream run")
        return []
    faults = check_truth(spark, settings, truth)
    if not faults:
        redriven = ledger.total(ledger.entries(settings, [REDRIVE]), "input")
        exception = f", except {redriven:,} that were redriven" if redriven else ""
        equal = "Late, duplicate and malformed records are, id by id, those that were generated"
        console.print(f"✓ {equal}{exception}.", style="green")
    return faults


def counts_table(ledger_check: LedgerCheck) -> Table:
    """Build a table of the records per topic and outcome."""
    terms = ("log", "bronze", *TERMS, *(["lost"] if ledger_check.losses else []))
    table = Table("topic", *terms, title="Where every record is")
    for column in table.columns[1:]:
        column.justify = "right"
    for topic, counts in sorted(ledger_check.counts.items()):
        table.add_row(topic, *(f"{counts[term]:,}" for term in terms))
    return table
