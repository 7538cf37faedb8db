"""A real log that goes on day by day while jobs follow it, with events that come too late."""

from datetime import timedelta

from pyspark.sql import SparkSession

from config.settings import Settings
from config.terminal import Terminal
from expectations.ledger_check import check_ledger, check_truth
from local.simulator.plan import Plan
from local.simulator.run import simulate
from local.simulator.truth import read_truth
from streaming.job import Job, job_named
from streaming.runner import Runner


class Days:
    """A log that jobs read live: events arrive day by day, some of them too late."""

    def __init__(self, settings: Settings, spark: SparkSession) -> None:
        self.settings, self.spark, self.day = settings, spark, 0

    def arrive(self) -> None:
        """Send the next day's events; the first of them lie a little before the last of the day before."""
        self.day += 1
        start = Plan().start + timedelta(days=self.day) - self.day * timedelta(minutes=10)
        plan = Plan(seed=self.day, start=start, events=800, late=0.05, duplicates=0.03)
        simulate(self.settings, plan, Terminal(quiet=True))

    def follow(self) -> None:
        """Run the live jobs until they have caught up."""
        Runner(self.settings, self.spark).run(followed(), until_caught_up=True)


def followed() -> list[Job]:
    """Take landing, a job that joins, one that follows it, and one with sessions."""
    return [job_named(name) for name in ("landing", "clicks_enriched", "views_per_minute", "sessions")]


def goes_on(days: Days, generation: int) -> None:
    """Follow the log in a generation, and every record of it."""
    runner = Runner(days.settings, days.spark)
    assert {runner.target.of_job(job) for job in followed()} == {generation}
    runner.run(followed(), until_caught_up=True)
    check = check_ledger(days.spark, days.settings)
    assert (check.faults, check.waiting) == ([], 0)
    assert check.counts
    assert check_truth(days.spark, days.settings, read_truth(days.settings)) == []
