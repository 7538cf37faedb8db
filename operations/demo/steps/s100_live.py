"""Step: events arrive live, and the jobs process them as they come."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from config.kafka import end_offsets
from config.terminal import Terminal
from lake.generations import serving
from lake.ledger import landed_up_to
from local.simulator.plan import Plan
from local.simulator.run import simulate
from operations.demo.context import Context
from operations.demo.step import Step
from streaming.commands import run_watched
from streaming.job import job_named, jobs
from streaming.runner import Runner

SECONDS = 10
# Fewer clicks than make an hour a busy one: the generated day was in January, and between two busy hours no hour may be
# missing (expectations/rules/silver.clicks.yaml).
EVENTS = 100


def run(context: Context) -> bool:
    """Send events for some seconds while every job runs; return whether all of them landed."""
    plan = Plan(seed=context.seed, events=EVENTS, live=SECONDS, start=datetime.now(UTC))
    sent, landed = _land_live(context, plan)
    context.console.print(f"{sent:,} records were sent within {SECONDS} s; {landed:,} of them have landed.")
    return sent == landed


def _land_live(context: Context, plan: Plan) -> tuple[int, int]:
    """Run every job while a plan's events arrive; return how many records were sent, and how many have landed."""
    settings, spark = context.settings, context.spark
    chosen, topics = list(jobs().values()), job_named("landing").topics
    generation = serving(settings).of_job(job_named("landing"))

    def landed() -> int:
        return sum(landed_up_to(settings, "landing", generation).values())

    before = sum(end_offsets(settings, topics).values())
    runner = Runner(settings, spark)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_watched, runner, chosen, until_caught_up=False, console=context.console)
        try:
            # An event that arrives before all queries run would wait for Spark, which is not the stream's freshness.
            _wait(running, lambda: len(spark.streams.active) == len(chosen) and landed() >= before)
            simulate(settings, plan, Terminal(quiet=True))
            end = sum(end_offsets(settings, topics).values())
            _wait(running, lambda: landed() >= end)
        finally:
            runner.stop()
        running.result()
    return end - before, landed() - before


def _wait(running: Future[Any], done: Callable[[], bool]) -> None:
    """Wait until something is done, or until the jobs end, which they should not."""
    while not done() and not running.done():
        time.sleep(0.2)


step = Step(title="Live: events are processed as they arrive", part="live", run=run)
