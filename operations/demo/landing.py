"""The demo's part on landing: what was generated beside what was found, and where every record went."""

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from config.settings import Settings
from expectations.ledger_check import LedgerCheck, check_ledger, check_truth
from local.simulator.truth import Truth


def show_landed(console: Console, settings: Settings, spark: SparkSession, truth: Truth) -> bool:
    """Follow every record, and print where it went; say whether all is as it was generated, id by id."""
    with console.status("Following every record …"):
        verdict = check_ledger(spark, settings)
        faults = [*verdict.faults, *check_truth(spark, settings, truth)]
    equal = _beside(console, truth, verdict)
    _flow(console, verdict)
    for fault in faults[:10]:
        console.print(f"✗ {fault}", style="red")
    return equal and not faults


def _beside(console: Console, truth: Truth, verdict: LedgerCheck) -> bool:
    """Print what was generated beside what was found; say whether all is equal."""
    table = Table("", "generated", "found", "", title="From the truth file, and from the tables")
    for column in table.columns[1:3]:
        column.justify = "right"
    equal = True
    for topic in sorted(truth.records):
        counts = verdict.counts.get(topic, {})
        for what, generated, found in (
            ("records in the log", truth.records[topic], counts.get("bronze", 0)),
            ("valid, on time, once", truth.accepted(topic), counts.get("silver", 0)),
            ("late", len(truth.late.get(topic, [])), counts.get("late", 0)),
            ("duplicates", len(truth.duplicates.get(topic, [])), counts.get("duplicates", 0)),
            ("malformed", len(truth.malformed.get(topic, {})), counts.get("quarantined", 0)),
        ):
            equal &= generated == found
            mark = "[green]✓[/]" if generated == found else "[red]✗[/]"
            table.add_row(f"{topic}: {what}", f"{generated:,}", f"{found:,}", mark)
        table.add_section()
    console.print(table)
    return equal


def _flow(console: Console, verdict: LedgerCheck) -> None:
    """Draw where every record went."""
    total = {term: sum(c[term] for c in verdict.counts.values()) for term in next(iter(verdict.counts.values()), {})}
    if not total:
        return
    width = max(len(f"{count:,}") for count in total.values())
    ways = (("silver", "silver.*"), ("quarantined", "silver.quarantine"), ("late", "silver.late"),
            ("duplicates", "silver.duplicates"), ("erased", "erased"))  # fmt: skip
    console.print(f"\nKafka {total['log']:,} ──▶ bronze.events {total['bronze']:,}")
    for position, (term, name) in enumerate(ways):
        branch = "└" if position == len(ways) - 1 else "├"
        share = total[term] / total["bronze"] if total["bronze"] else 0
        bar = "█" * max(round(share * 40), 1 if total[term] else 0)
        console.print(f"   {branch}─▶ {name:<18} {total[term]:>{width},}  {bar} {share:.2%}")
