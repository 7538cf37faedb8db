"""The demo's part on freshness: events come as they happen, the jobs follow, and the batch layer has its next run."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from config.kafka import end_offsets
from config.settings import Settings
from dashboard.freshness import freshness, percentiles
from lake.generations import serving
from lake.ledger import landed_up_to
from local.simulator.plan import Plan
from local.simulator.run import simulate
from operations.demo.batch import show_batch  # feature: batch
from streaming.commands import run_watched
from streaming.job import job_named, jobs
from streaming.runner import Runner

SECONDS = 20
# Fewer clicks than make an hour a busy one: the day before was in January, and between two busy hours no hour may be
# missing (expectations/rules/silver.clicks.yaml).
EVENTS = 200
ANSWERS = {"stream": "the stream has landed it", "batch": "the batch layer has published it"}


def show_live(console: Console, settings: Settings, spark: SparkSession, seed: int) -> bool:
    """Let events come, follow them, and tell how fresh each answer was; say whether all that came is in each."""
    plan = Plan(seed=seed, events=EVENTS, live=SECONDS, start=datetime.now(UTC))
    came, landed = _followed(console, settings, spark, plan)
    console.print(f"{came:,} records came within {SECONDS} s, as they happened; {landed:,} of them have landed.")
    whole = came == landed
    whole &= show_batch(console, settings, spark, full=False)  # feature: batch
    fresh = percentiles(freshness(settings))
    table = Table("from arrival until", "half of the time", "95 % within", title="Freshness")
    for answer, (half, most) in fresh.items():
        table.add_row(ANSWERS[answer], f"{half:.1f} s", f"{most:.1f} s")
    for column in table.columns[1:]:
        column.justify = "right"
    console.print(table)
    whole &= "batch" in fresh  # feature: batch
    return whole and "stream" in fresh


def _followed(console: Console, settings: Settings, spark: SparkSession, plan: Plan) -> tuple[int, int]:
    """Run every job while a plan's events come; give how many records did, and how many of these have landed."""
    chosen, topics = list(jobs().values()), job_named("landing").topics
    generation = serving(settings).of_job(job_named("landing"))

    def landed() -> int:
        return sum(landed_up_to(settings, "landing", generation).values())

    before = sum(end_offsets(settings, topics).values())
    runner = Runner(settings, spark)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_watched, runner, chosen, until_caught_up=False, console=console)
        try:
            # What comes before all of them follow would wait for Spark, which tells nothing of the stream.
            _wait(running, lambda: len(spark.streams.active) == len(chosen) and landed() >= before)
            simulate(settings, plan, Console(quiet=True))
            end = sum(end_offsets(settings, topics).values())
            _wait(running, lambda: landed() >= end)
        finally:
            runner.stop()
        running.result()
    return end - before, landed() - before


def _wait(running: Future[Any], done: Callable[[], bool]) -> None:
    """Wait until something is done, or the jobs have ended, which they should not."""
    while not done() and not running.done():
        time.sleep(0.2)
