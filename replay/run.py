"""Running a replay: the same jobs, on all of history, into a generation of their own."""

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow.compute as pc
from pyspark.sql import SparkSession

from config.declarations import table_named
from config.failpoints import failpoint
from config.locks import single_writer
from config.settings import Settings
from lake import batch_log, generations, ledger
from lake.costs import measured, record_cost
from lake.tables import create_missing, read_arrow
from replay.manifest import Replay, save
from streaming.checkpoint import last_checkpoint
from streaming.job import Job
from streaming.progress import Watch
from streaming.runner import Runner
from streaming.windows.closing import close

LOCK = "replay"


def run(
    spark: SparkSession,
    settings: Settings,
    replay: Replay,
    watch: Watch | None = None,
    jobs: list[Job] | None = None,
) -> Replay:
    """Build the tables of a replay, or go on building them after a kill; what is served is not touched.

    jobs: those of the replay, where they are not the project's own, as when a change of logic is tried out.
    """
    with single_writer(settings, [LOCK]):
        # The pointer must be there before a second generation is: views ask it which of them to show.
        create_missing([generations.TABLE], settings.warehouse)
        save(settings, replay)
        failpoint("after replay manifest")
        began = time.monotonic()
        jobs = jobs or replay.jobs_to_run()
        followers = [job for job in jobs if not job.topics]
        if any(last_checkpoint(job, settings, replay.generation).followed() for job in followers):
            # All had landed before the first of them began, and their delay was set by it: what came into the log
            # since the kill may lie behind it. It is landed when the replay is served.
            jobs = followers
        with measured(spark, settings.warehouse) as cost:
            Runner(settings, spark, replay.target).run(jobs, until_caught_up=True, watch=watch)
            failpoint("after replay run")
            for job in followers:
                _close(job, replay, settings, spark)
        failpoint("after replay closing")
        landed = [row for row in ledger.entries(settings, ["landing"]) if row["generation"] == replay.generation]
        seconds = replay.seconds + time.monotonic() - began
        built = replace(replay, state="built", seconds=seconds, records=ledger.total(landed, "input"))
        save(settings, built)
        record_cost(settings, "replay", f"run generation {built.generation}", built.records, cost)
        return built


def _close(job: Job, replay: Replay, settings: Settings, spark: SparkSession) -> None:
    """Let a job's rows be final up to where those of what is served would be, after the same events.

    A replay's own delay is as long as its log was out of order; but it has read all there is.
    """
    reached = [_reached(name, replay, settings) for name in job.reads]
    until = min((moment for moment in reached if moment), default=None)
    known = batch_log.closed_until(settings, job.name, replay.generation)
    if until and (known is None or known < until):
        close(job, settings, spark, replay.target, until)


def _reached(name: str, replay: Replay, settings: Settings) -> datetime | None:
    table = table_named(name)
    times = read_arrow(table.path(settings.warehouse, replay.target.of_table(name)), None, ["event_time"])
    latest: datetime | None = pc.max(times["event_time"]).as_py() if len(times) else None
    if latest is None or table.disorder is None:
        return None
    return latest.astimezone(UTC) - table.disorder - timedelta(minutes=settings.streaming.skew_minutes)
