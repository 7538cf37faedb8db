"""The demo: the main job start to end, in a home of its own, number beside number from the truth."""

import shutil
import time
from itertools import count

from rich.console import Console

from config.settings import Settings, load_settings
from config.spark import session
from dashboard.report import write as write_report  # feature: comparison
from expectations.conservation import check_ledger, check_truth
from local.broker import Broker
from local.simulator.commands import simulate
from local.simulator.plan import Plan
from operations.demo.batch import show_batch  # feature: batch
from operations.demo.landing import beside, flow
from operations.demo.models import show_models
from operations.demo.parity import show_difference, show_equality  # feature: comparison
from operations.demo.replay import show_logic, show_replay  # feature: replay
from operations.demo.roles import show_edge, show_gold, show_reactor
from streaming.commands import close_open, run_watched
from streaming.job import jobs
from streaming.runner import Runner

TRY_NEXT = (
    "compare --show-rows 3",  # feature: batch
    'sql "select rules, count(*) from silver.quarantine group by rules"',
    "trace clicks/0/42",
)


def run(console: Console, *, events: int, seed: int) -> int:
    """Tell the story; give 0 when everything found is what was generated."""
    started = time.monotonic()
    settings = _own_home()
    numbers = count(1)

    def chapter(title: str) -> None:
        console.rule(f"{next(numbers)} · {title}")

    chapter("A real Kafka, on loopback")
    status = Broker(settings).start()
    console.print(f"Kafka 4, KRaft, is {status.note}, at 127.0.0.1:{status.port}.")
    try:
        with console.status("Starting Spark …"):
            spark = session(settings, "lakehouse demo")
        chapter("A day in the shop, with known defects")
        truth = simulate(settings, Plan(seed=seed, events=events), console)
        console.print(f"{sum(truth.records.values()):,} records are waiting in the log.")
        chapter("Landing: Kafka → bronze and silver; then windows, joins and status: silver → gold")
        run_watched(Runner(settings, spark), list(jobs().values()), until_caught_up=True, console=console)
        console.print("The day is over, and no event comes to move time on: what is still open is closed on request.")
        close_open(settings, spark, list(jobs().values()), console)
        chapter("What was generated, and what was found")
        with console.status("Following every record …"):
            verdict = check_ledger(spark, settings)
            faults = [*verdict.faults, *check_truth(spark, settings, truth)]
        equal = beside(console, truth, verdict)
        flow(console, verdict)
        for fault in faults[:10]:
            console.print(f"✗ {fault}", style="red")
        chapter("Gold: every event counted, in each table that it belongs to")
        equal &= show_gold(console, settings)
        # feature: batch
        chapter("Lambda: the batch layer recomputes it all, is checked, and published")
        equal &= show_batch(console, settings, spark)
        # end of feature: batch
        # feature: comparison
        chapter("Lambda against Kappa: where the answers differ, and why")
        equal &= show_difference(console, settings, spark, truth)
        # end of feature: comparison
        # feature: replay
        chapter("Kappa: a replay from the log, proved before it is served")
        equal &= show_replay(console, settings, spark)
        # end of feature: replay
        # feature: comparison
        equal &= show_equality(console, settings, spark)
        # end of feature: comparison
        # feature: replay
        chapter("A change of logic: replayed, promoted, rolled back")
        equal &= show_logic(console, settings, spark)
        # end of feature: replay
        chapter("dbt: the views and marts that people read")
        spark.stop()  # dbt has a session of its own
        equal &= show_models(console, settings)
        chapter("The reactor: failed payments are retried, each once")
        equal &= show_reactor(console, settings, truth)
        chapter("The web edge: bots and personal data leave, by a transaction")
        equal &= show_edge(console, settings, seed)
    finally:
        Broker(settings).stop()
    if faults or not equal:
        console.print("✗ What was found is not what was generated.", style="red")
        return 1
    console.print("✓ Every record is accounted for, id by id.", style="green")
    console.print(
        f"\nDone in {time.monotonic() - started:.0f} s. Kafka is stopped; the tables stay in {settings.home}."
    )
    console.print(f"The quality checks, as Data Docs: {settings.home / 'reports' / 'data-docs' / 'index.html'}")
    console.print(f"The models, as dbt docs: {settings.home / 'reports' / 'dbt' / 'static_index.html'}")
    console.print(f"The report: {write_report(settings)}")  # feature: comparison
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
