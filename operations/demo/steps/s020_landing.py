"""Step: land the day, and compare what was found with what was generated."""

from config.terminal import Terminal
from expectations.ledger_check import LedgerCheck, check_ledger, check_truth
from local.simulator.truth import Truth
from operations.demo.context import Context
from operations.demo.progress import progress
from operations.demo.step import Step
from operations.demo.table import Rows, show_equal
from streaming.commands import run_measured
from streaming.job import job_named
from streaming.runner import Runner

LANDED = (
    ("silver", "silver.*"),
    ("quarantined", "silver.quarantine"),
    ("late", "silver.late"),
    ("duplicates", "silver.duplicates"),
    ("erased", "erased"),
)


def run(context: Context) -> bool:
    """Land every record and trace it to the one table that has it; return whether all is as generated, id by id."""
    console, settings, spark = context.console, context.settings, context.spark
    _, cost = run_measured(Runner(settings, spark), [job_named("landing")], until_caught_up=True, console=console)
    context.stream_costs.append(cost)
    with progress(console, "Tracing every record"):
        check = check_ledger(spark, settings)
        faults = [*check.faults, *check_truth(spark, settings, context.truth)]
    groups = [_rows(topic, context.truth, check) for topic in sorted(context.truth.records)]
    equal = show_equal(console, ("generated", "found"), groups, "The simulator's truth file and the tables")
    _show_flow(console, check)
    for fault in faults[:10]:
        console.print(f"✗ {fault}", style="red")
    return equal and not faults


def _rows(topic: str, truth: Truth, check: LedgerCheck) -> Rows:
    counts = check.counts.get(topic, {})
    return [
        (f"{topic}: records in the log", truth.records[topic], counts.get("bronze", 0)),
        (f"{topic}: valid, on time, once", truth.accepted(topic), counts.get("silver", 0)),
        (f"{topic}: late", len(truth.late.get(topic, [])), counts.get("late", 0)),
        (f"{topic}: duplicates", len(truth.duplicates.get(topic, [])), counts.get("duplicates", 0)),
        (f"{topic}: malformed", len(truth.malformed.get(topic, {})), counts.get("quarantined", 0)),
    ]


def _show_flow(console: Terminal, check: LedgerCheck) -> None:
    """Draw how many records each table has."""
    total = {term: sum(c[term] for c in check.counts.values()) for term in next(iter(check.counts.values()), {})}
    if not total:
        return
    width = max(len(f"{count:,}") for count in total.values())
    console.print()
    console.print(f"Kafka {total['log']:,} ──▶ bronze.events {total['bronze']:,}")
    for position, (term, name) in enumerate(LANDED):
        branch = "└" if position == len(LANDED) - 1 else "├"
        share = total[term] / total["bronze"] if total["bronze"] else 0
        bar = "█" * max(round(share * 40), 1 if total[term] else 0)
        console.print(f"   {branch}─▶ {name:<18} {total[term]:>{width},}  {bar} {share:.2%}")


step = Step(title="Landing: Kafka → bronze and silver; generated and found", part="stream", run=run)
