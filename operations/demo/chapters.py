"""The chapters of the demo, in their order; those of one act are told by one process.

A chapter imports what it tells of when it is told: to check quality alone takes seconds to import, in every act.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from threading import Thread

from pyspark.sql import SparkSession
from rich.console import Console

from config.settings import Settings
from config.spark import session
from local.simulator.plan import Plan
from local.simulator.truth import Truth, read_truth


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

    act: str
    title: str
    tell: Callable[[Stage], bool]


def _generate(stage: Stage) -> bool:
    """Write a day of shop life into the log."""
    from local.simulator.run import simulate

    truth = simulate(stage.settings, Plan(seed=stage.seed, events=stage.events), stage.console)
    stage.console.print(f"{sum(truth.records.values()):,} records are waiting in the log.")
    return True


def _stream(stage: Stage) -> bool:
    """Run every job until it has caught up, and close what is still open."""
    from streaming.commands import close_open, run_watched
    from streaming.job import jobs
    from streaming.runner import Runner

    chosen = list(jobs().values())
    run_watched(Runner(stage.settings, stage.spark), chosen, until_caught_up=True, console=stage.console)
    stage.console.print("The day is over, and no event comes to move time on: what is still open is closed on request.")
    close_open(stage.settings, stage.spark, chosen, stage.console)
    return True


def _landed(stage: Stage) -> bool:
    from operations.demo.landing import show_landed

    return show_landed(stage.console, stage.settings, stage.spark, stage.truth)


def _gold(stage: Stage) -> bool:
    from operations.demo.roles import show_gold

    return show_gold(stage.console, stage.settings)


def _reactor(stage: Stage) -> bool:
    from operations.demo.roles import show_reactor

    return show_reactor(stage.console, stage.settings, stage.truth)


def _spark_beside_checks(stage: Stage) -> SparkSession:
    """Start Spark while the quality checks are imported, which takes as long: there is a processor for each."""
    importing = Thread(target=import_module, args=("expectations.gate",))
    importing.start()
    try:
        return stage.spark
    finally:
        importing.join()


# feature: batch
def _batch(stage: Stage) -> bool:
    spark = _spark_beside_checks(stage)
    from operations.demo.batch import show_batch

    return show_batch(stage.console, stage.settings, spark)


# end of feature: batch
# feature: comparison
def _difference(stage: Stage) -> bool:
    from operations.demo.parity import show_difference

    return show_difference(stage.console, stage.settings, stage.spark, stage.truth)


def _equality(stage: Stage) -> bool:
    from operations.demo.parity import show_equality

    return show_equality(stage.console, stage.settings, stage.spark)


# end of feature: comparison
# feature: replay
def _replay(stage: Stage) -> bool:
    spark = _spark_beside_checks(stage)
    from operations.demo.replay import show_replay

    return show_replay(stage.console, stage.settings, spark)


def _logic(stage: Stage) -> bool:
    from operations.demo.replay import show_logic

    return show_logic(stage.console, stage.settings, stage.spark)


# end of feature: replay
def _live(stage: Stage) -> bool:
    from operations.demo.live import show_live

    return show_live(stage.console, stage.settings, stage.spark, stage.seed)


def _models(stage: Stage) -> bool:
    from operations.demo.models import show_models

    return show_models(stage.settings)


def _edge(stage: Stage) -> bool:
    from operations.demo.roles import show_edge

    return show_edge(stage.console, stage.settings, stage.seed)


# What comes live is told by a process whose Spark is warm: how fresh an answer is is not how long it took to start.
WARM = "replay"  # without feature replay: WARM = "batch"

CHAPTERS = (
    Chapter("stream", "A day in the shop, with known defects", _generate),
    Chapter("stream", "Landing: Kafka → bronze and silver; then windows, joins and status: silver → gold", _stream),
    Chapter("stream", "What was generated, and what was found", _landed),
    Chapter("stream", "Gold: every event counted, in each table that it belongs to", _gold),
    Chapter("stream", "The reactor: failed payments are retried, each once", _reactor),
    # feature: batch
    Chapter("batch", "Lambda: the batch layer recomputes it all, is checked, and published", _batch),
    # end of feature: batch
    # feature: comparison
    Chapter("batch", "Lambda against Kappa: where the answers differ, and why", _difference),
    # end of feature: comparison
    # feature: replay
    Chapter("replay", "Kappa: a replay from the log, proved before it is served", _replay),
    # end of feature: replay
    # feature: comparison
    Chapter("replay", "Lambda against Kappa again: the replay has closed the gap", _equality),
    # end of feature: comparison
    # feature: replay
    Chapter("replay", "A change of logic: replayed, promoted, rolled back", _logic),
    # end of feature: replay
    # Its events, which no chapter before has counted, come after those of the day; so do those of the edge.
    Chapter(WARM, "Live: events as they happen, and how fresh each answer is", _live),
    Chapter("models", "dbt: the views and marts that people read", _models),
    Chapter("edge", "The web edge: bots and personal data leave, by a transaction", _edge),
)
ACTS = tuple(dict.fromkeys(chapter.act for chapter in CHAPTERS))
