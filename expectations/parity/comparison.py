"""Comparison: two sides of every gold table -> equal rows, and a reason for each differing row."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from threading import RLock

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from config.declarations import Table, table_named, tables
from config.parallel import in_parallel
from config.settings import Settings
from expectations.parity import evidence, reasons
from expectations.parity.reasons import Explained, explain
from expectations.parity.rows import compare
from lake import batch_log
from lake.generations import TableGenerations, serving
from lake.location import storage
from lake.ordering import first_per_key_spark
from lake.tables import read
from streaming import code_version
from streaming.checkpoint import job_folder
from streaming.job import Job
from streaming.job import jobs as all_jobs

OnProgress = Callable[[str], None]
Gather = Callable[[], dict[str, DataFrame]]


@dataclass(frozen=True)
class Side:
    """One side of a comparison: its name, its tables, and the time before which its rows are final."""

    name: str
    frame: Callable[[str], DataFrame]
    tables: frozenset[str]
    closed_until: Callable[[Job], datetime | None]
    """Return the time before which the rows of a job's table are final."""

    generation: int | None = None
    """The generation of silver and gold, if the side is one."""

    target: TableGenerations | None = None
    run: str | None = None
    """The run of the batch layer, if the side is one."""


def generation_side(spark: SparkSession, settings: Settings, target: TableGenerations, name: str) -> Side:
    """Build a side from the tables of a generation: the served ones, or those of a replay."""
    return Side(
        name=name,
        frame=lambda table: read(spark, table, settings, target.of_table(table)),
        tables=frozenset(target.generation_by_table),
        closed_until=lambda job: batch_log.closed_until(settings, job.name, target.of_job(job)),
        generation=target.of_table("silver.late"),
        target=target,
    )


def on_day(side: Side, day: str) -> Side:
    """Restrict a side to the rows that become final on a day."""

    def frame(name: str) -> DataFrame:
        table = table_named(name)
        time = table.final_at or table.changed_at
        rows = side.frame(name)
        return rows.filter(F.to_date(F.expr(time)) == F.lit(day).cast("date")) if time else rows

    return replace(side, frame=frame)


def compared(
    spark: SparkSession,
    settings: Settings,
    left: Side,
    right: Side,
    *,
    only: str | None = None,
    jobs: list[Job] | None = None,
    watch: OnProgress = lambda _: None,
) -> dict[str, Explained]:
    """Compare every gold table that both sides have, over the rows that are final in both, and explain differences.

    left: the more complete side; an event that it counts and the right side has as late is a reason. only: one table.
    jobs: the jobs that wrote the left side, if they are not the project's current jobs.
    """
    evidence_by_reason = _evidence(spark, settings, left, right)
    both = {table.name for table in comparable_tables()} & left.tables & right.tables
    chosen = [job for job in jobs or list(all_jobs().values()) if job.writes[0] in both & {only or job.writes[0]}]

    def explained(job: Job) -> Explained:
        (name,) = job.writes
        table = table_named(name)
        watch(name)
        parity = compare(left.frame(name), right.frame(name), table, _closed_until(job, left, right))
        previous = _previous_result(settings, job, right) if parity.rows else None
        return explain(parity, job, table.key, evidence_by_reason, previous)

    found = in_parallel(explained, chosen, settings.streaming.parallel_writes)
    return {job.writes[0]: each for job, each in zip(chosen, found, strict=True)}


def keep(settings: Settings, found: Mapping[str, Explained]) -> None:
    """Store the result of a comparison for the report."""
    now = datetime.now(UTC)
    tables = {name: {"equal": each.parity.equal, "by_reason": each.by_reason} for name, each in found.items()}
    file = storage(settings) / "reports" / "comparisons" / f"{now:%Y%m%dT%H%M%S%f}.json"
    file.write(json.dumps({"at": now.isoformat(timespec="seconds"), "tables": tables}, indent=1))


def comparable_tables() -> list[Table]:
    """List the tables that are compared."""
    return [table for table in tables().values() if table.layer == "gold"]


def _closed_until(job: Job, left: Side, right: Side) -> datetime | None:
    known = [time for time in (left.closed_until(job), right.closed_until(job)) if time]
    return min(known, default=None)


def _evidence(spark: SparkSession, settings: Settings, left: Side, right: Side) -> reasons.Evidence:
    """Return, by reason, a function that collects the events; each is collected once, and only on demand."""
    enriched = "silver.clicks_enriched"
    lock = RLock()

    @_once(lock)
    def late() -> dict[str, DataFrame]:
        events: dict[str, DataFrame] = {}
        for side in (right, left):
            if side.generation is not None:
                of_side = evidence.late(spark, settings, side.generation, left.frame("silver.users"))
                for name, rows in of_side.items():
                    events[name] = events[name].unionByName(rows) if name in events else rows
        return events

    @_once(lock)
    def another_tier() -> dict[str, DataFrame]:
        return evidence.with_another_tier(left.frame(enriched), right.frame(enriched))

    @_once(lock)
    def only_in_one() -> dict[str, DataFrame]:
        return evidence.only_in_one(left.frame, right.frame, late())

    return {reasons.LATE: late, reasons.DIMENSION: another_tier, reasons.ONE_SIDED: only_in_one}


def _once(lock: RLock) -> Callable[[Gather], Gather]:
    """Keep what a function returns; of several threads that need it at the same time, let one compute it."""

    def decorate(gather: Gather) -> Gather:
        kept = cache(gather)

        def gathered() -> dict[str, DataFrame]:
            with lock:
                return kept()

        return gathered

    return decorate


def _previous_result(settings: Settings, job: Job, side: Side) -> DataFrame | None:
    """Apply the previous version of a job, if there is one, to the inputs of a side."""
    target = side.target or serving(settings)
    folder = job_folder(job.name, settings, target.of_job(job))
    recorded = code_version.recorded(folder)
    if not recorded or recorded["version"] == job.version:
        return None
    previous = code_version.previous_job(folder, job.name)
    if previous is None or previous.query.transform is None:
        return None
    return first_per_key_spark(
        previous.apply({name: side.frame(name) for name in previous.reads}),
        table_named(job.writes[0]).key,
        previous.bounded.pick_first_by,
    )
