"""The demo: the main job start to end, in a home of its own, number beside number from the truth.

Each act is told by a process of its own, with a Spark of its own: what a path costs is then its own too, and at no time
are there two Sparks in memory.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import SparkSession
from rich.console import Console

from config.errors import LakehouseError
from config.java import SHORT_RUN
from config.settings import ROOT, Settings, load_settings, nearest
from config.spark import session
from dashboard.report import write as write_report  # feature: comparison
from local.broker import Broker
from local.simulator.commands import simulate
from local.simulator.plan import Plan
from local.simulator.truth import Truth, read_truth
from operations.demo.batch import show_batch  # feature: batch
from operations.demo.landing import show_landed
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


@dataclass(frozen=True)
class Stage:
    """What chapters have at hand."""

    console: Console
    settings: Settings
    events: int
    seed: int

    @cached_property
    def spark(self) -> SparkSession:
        """Start Spark for the act, when a chapter first asks for it."""
        with self.console.status("Starting Spark …"):
            return session(self.settings, "lakehouse demo")

    @cached_property
    def truth(self) -> Truth:
        """Read what was generated, before anything else was."""
        return read_truth(self.settings)


@dataclass(frozen=True)
class Chapter:
    """A part of the story; it says whether what was found is what was generated."""

    title: str
    tell: Callable[[Stage], bool]


def generate(stage: Stage) -> bool:
    """Write a day of shop life into the log."""
    truth = simulate(stage.settings, Plan(seed=stage.seed, events=stage.events), stage.console)
    stage.console.print(f"{sum(truth.records.values()):,} records are waiting in the log.")
    return True


def stream(stage: Stage) -> bool:
    """Run every job until it has caught up, and close what is still open."""
    chosen = list(jobs().values())
    run_watched(Runner(stage.settings, stage.spark), chosen, until_caught_up=True, console=stage.console)
    stage.console.print("The day is over, and no event comes to move time on: what is still open is closed on request.")
    close_open(stage.settings, stage.spark, chosen, stage.console)
    return True


ACTS: dict[str, tuple[Chapter, ...]] = {
    "stream": (
        Chapter("A day in the shop, with known defects", generate),
        Chapter("Landing: Kafka → bronze and silver; then windows, joins and status: silver → gold", stream),
        Chapter(
            "What was generated, and what was found",
            lambda stage: show_landed(stage.console, stage.settings, stage.spark, stage.truth),
        ),
        Chapter(
            "Gold: every event counted, in each table that it belongs to",
            lambda stage: show_gold(stage.console, stage.settings),
        ),
    ),
    # feature: batch
    "batch": (
        Chapter(
            "Lambda: the batch layer recomputes it all, is checked, and published",
            lambda stage: show_batch(stage.console, stage.settings, stage.spark),
        ),
        # feature: comparison
        Chapter(
            "Lambda against Kappa: where the answers differ, and why",
            lambda stage: show_difference(stage.console, stage.settings, stage.spark, stage.truth),
        ),
        # end of feature: comparison
    ),
    # end of feature: batch
    # feature: replay
    "replay": (
        Chapter(
            "Kappa: a replay from the log, proved before it is served",
            lambda stage: show_replay(stage.console, stage.settings, stage.spark),
        ),
        # feature: comparison
        Chapter(
            "Lambda against Kappa again: the replay has closed the gap",
            lambda stage: show_equality(stage.console, stage.settings, stage.spark),
        ),
        # end of feature: comparison
        Chapter(
            "A change of logic: replayed, promoted, rolled back",
            lambda stage: show_logic(stage.console, stage.settings, stage.spark),
        ),
    ),
    # end of feature: replay
    "models": (Chapter("dbt: the views and marts that people read", lambda stage: show_models(stage.settings)),),
    "outside": (
        Chapter(
            "The reactor: failed payments are retried, each once",
            lambda stage: show_reactor(stage.console, stage.settings, stage.truth),
        ),
        Chapter(
            "The web edge: bots and personal data leave, by a transaction",
            lambda stage: show_edge(stage.console, stage.settings, stage.seed),
        ),
    ),
}


def run(console: Console, *, events: int, seed: int) -> int:
    """Tell the story; give 0 when everything found is what was generated."""
    started = time.monotonic()
    settings = _own_home()
    console.rule("1 · A real Kafka, on loopback")
    status = Broker(settings).start()
    console.print(f"Kafka 4, KRaft, is {status.note}, at 127.0.0.1:{status.port}.")
    try:
        equal = all(_told(name, events, seed) for name in ACTS)
    finally:
        Broker(settings).stop()
    if not equal:
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


def tell(console: Console, act: str, *, events: int, seed: int) -> int:
    """Tell one act, in this process; give 0 when everything found is what was generated."""
    if act not in ACTS:
        raise LakehouseError(f"There is no act '{act}': {nearest(act, list(ACTS))}", "lakehouse demo")
    stage = Stage(console, demo_home(load_settings()), events, seed)
    first = 2 + sum(len(ACTS[name]) for name in list(ACTS)[: list(ACTS).index(act)])
    equal = True
    for number, chapter in enumerate(ACTS[act], first):
        console.rule(f"{number} · {chapter.title}")
        equal &= chapter.tell(stage)
    return 0 if equal else 1


def demo_home(settings: Settings) -> Settings:
    """Give the settings of the demo's own home, inside the user's."""
    return settings.at(settings.home / "demo")


def _told(act: str, events: int, seed: int) -> bool:
    """Have an act told by a process of its own."""
    command = [sys.executable, "-m", "lakehouse", "demo", "--act", act, "--events", str(events), "--seed", str(seed)]
    options = " ".join((os.environ.get("SPARK_SUBMIT_OPTS", ""), *SHORT_RUN))
    environ = os.environ | {"SPARK_SUBMIT_OPTS": options}
    return subprocess.run(command, cwd=ROOT, env=environ, check=False).returncode == 0


def _own_home() -> Settings:
    """Empty the demo's own home, and stop what an interrupted demo left running there."""
    settings = demo_home(load_settings())
    Broker(settings).stop()
    shutil.rmtree(settings.home, ignore_errors=True)
    return settings
