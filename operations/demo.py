"""The demo: the main job start to end, in a home of its own, number beside number from the truth."""

import shutil
import time

from rich.console import Console
from rich.table import Table

from config.settings import Settings, load_settings
from config.spark import session
from expectations.conservation import Verdict, check_ledger, check_truth
from local.broker import Broker
from local.simulator.commands import simulate
from local.simulator.plan import Plan
from local.simulator.truth import Truth
from streaming.commands import run_watched
from streaming.job import jobs
from streaming.runner import Runner

TRY_NEXT = (
    'sql "select type, count(*) from silver.clicks group by type"',
    'sql "select rules, count(*) from silver.quarantine group by rules"',
    "trace clicks/0/42",
)


def run(console: Console, *, events: int, seed: int) -> int:
    """Tell the story; give 0 when everything found is what was generated."""
    started = time.monotonic()
    settings = _own_home()
    console.rule("1 · A real Kafka, on loopback")
    status = Broker(settings).start()
    console.print(f"Kafka 4, KRaft, is {status.note}, at 127.0.0.1:{status.port}.")
    try:
        with console.status("Starting Spark …"):
            spark = session(settings, "lakehouse demo")
        console.rule("2 · A day in the shop, with known defects")
        truth = simulate(settings, Plan(seed=seed, events=events), console)
        console.print(f"{sum(truth.records.values()):,} records are waiting in the log.")
        console.rule("3 · Landing: Kafka → bronze and silver, in one micro-batch")
        run_watched(Runner(settings, spark), list(jobs().values()), until_caught_up=True, console=console)
        console.rule("4 · What was generated, and what was found")
        with console.status("Following every record …"):
            verdict = check_ledger(spark, settings)
            faults = [*verdict.faults, *check_truth(spark, settings, truth)]
        equal = _beside(console, truth, verdict)
        _flow(console, verdict)
        for fault in faults[:10]:
            console.print(f"✗ {fault}", style="red")
    finally:
        Broker(settings).stop()
    if faults or not equal:
        console.print("✗ What was found is not what was generated.", style="red")
        return 1
    console.print("✓ Every record is accounted for, id by id.", style="green")
    console.print(
        f"\nDone in {time.monotonic() - started:.0f} s. Kafka is stopped; the tables stay in {settings.home}."
    )
    console.print("Try next:")
    for command in TRY_NEXT:
        console.print(f"  LAKEHOUSE_HOME='{settings.home}' .venv/bin/lakehouse {command}", markup=False)
    return 0


def demo_home(settings: Settings) -> Settings:
    """Give the settings of the demo's own home, inside the user's."""
    return settings.at(settings.home / "demo")


def _own_home() -> Settings:
    """Empty the demo's own home, and stop what an interrupted demo left running there."""
    settings = demo_home(load_settings())
    Broker(settings).stop()
    shutil.rmtree(settings.home, ignore_errors=True)
    return settings


def _beside(console: Console, truth: Truth, verdict: Verdict) -> bool:
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


def _flow(console: Console, verdict: Verdict) -> None:
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
