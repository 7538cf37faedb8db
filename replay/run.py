"""Run a replay: the same jobs process all of history into a new generation."""

import time
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow.compute as pc
from pyspark.sql import SparkSession

from config.declarations import table_named
from config.failpoints import failpoint
from config.settings import Settings
from lake import batch_log, generations, ledger
from lake.costs import measured, record_cost
from lake.location import table_location, warehouse
from lake.locks import single_writer
from lake.tables import create_missing, read_arrow
from replay.checks import refuse_drops, refuse_other_code
from replay.manifest import Replay, save
from replay.reuse import land_by_reference
from streaming.checkpoint import has_begun
from streaming.job import Job
from streaming.progress import OnProgress
from streaming.runner import Runner
from streaming.sources import live_delay
from streaming.windows.closing import close

LOCK = "replay"


def run(
    spark: SparkSession,
    settings: Settings,
    replay: Replay,
    on_progress: OnProgress | None = None,
    jobs: list[Job] | None = None,
) -> Replay:
    """Build the tables of a replay, or resume after a kill; the served tables are not touched.

    jobs: the jobs to run, if they are not the project's own, as when a change of logic is tried out.
    """
    jobs = jobs or replay.jobs_to_run()
    refuse_other_code(replay, jobs)
    refuse_drops(settings, replay, jobs)
    with single_writer(settings, [LOCK]):
        # The pointer must exist before a second generation does: views read it to choose one.
        create_missing([generations.TABLE], settings)
        save(settings, replay)
        failpoint("after replay manifest")
        began = time.monotonic()
        followers = [job for job in jobs if not job.topics]
        if any(has_begun(job, settings, replay.generation) for job in followers):
            # Their watermark follows from what had landed when the first of them started. Records that reached Kafka
            # since the kill may lie behind it; they are landed once the replay is served.
            jobs = followers
        with measured(spark, warehouse(settings)) as cost:
            if replay.source == "silver" and jobs != followers:
                land_by_reference(spark, settings, replay.generation)
                jobs = followers
            runner = Runner(settings, spark, replay.target, from_first=replay.mode == "stream")
            runner.run(jobs, until_caught_up=True, on_progress=on_progress)
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
    """Finalize a job's rows up to the event time that the live job would have reached after the same events.

    The watermark delay of a replay that streams is longer, because its log was read out of order; but it has read
    everything. Rows that were closed on request are served as final, so they are closed here too.
    """
    reached = [_reached(name, replay, settings) for name in job.reads]
    moments = [
        min((moment for moment in reached if moment), default=None),
        _closed_on_request(job, replay, settings),
    ]
    closed_until = max((moment for moment in moments if moment), default=None)
    known = batch_log.closed_until(settings, job.name, replay.generation)
    if closed_until and (known is None or known < closed_until):
        close(job, settings, spark, replay.target, closed_until)


def _closed_on_request(job: Job, replay: Replay, settings: Settings) -> datetime | None:
    """Return up to where a request has closed the served rows, if the replay has every record landed before it."""
    served = generations.serving(settings)
    request = batch_log.last_request(settings, job.name, served.of_job(job))
    if request is None:
        return None
    known, mine = (target.of_table("silver.late") for target in (served, replay.target))
    landed = ledger.landed_up_to(settings, ledger.LANDING, mine)
    before = ledger.landed_up_to(settings, ledger.LANDING, known, by=request["recorded_at"])
    has_all = all(landed.get(partition, 0) >= end for partition, end in before.items())
    return request["closed_until"] if has_all else None


def _reached(name: str, replay: Replay, settings: Settings) -> datetime | None:
    table = table_named(name)
    times = read_arrow(table_location(settings, table.name, replay.target.of_table(name)), None, ["event_time"])
    latest: datetime | None = pc.max(times["event_time"]).as_py() if len(times) else None
    delay = live_delay(table, settings)
    return None if latest is None or delay is None else latest.astimezone(UTC) - delay
