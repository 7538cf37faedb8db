"""A comparison of answers: every comparable table of two sides, equal or with the reason for each row that is not."""

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

Watch = Callable[[str], None]
Gather = Callable[[], dict[str, DataFrame]]


@dataclass(frozen=True)
class Side:
    """One answer: how it is called, its tables, and up to when its rows are final."""

    name: str
    frame: Callable[[str], DataFrame]
    tables: frozenset[str]
    until: Callable[[Job], datetime | None]
    generation: int | None = None
    """The generation of silver and gold that it is, if it is one."""

    target: TableGenerations | None = None
    run: str | None = None
    """The run of the batch layer that it is, if it is one."""


def generation_side(spark: SparkSession, settings: Settings, target: TableGenerations, name: str) -> Side:
    """Take the tables of a generation as an answer: those that are served, or those of a replay."""
    return Side(
        name=name,
        frame=lambda table: read(spark, table, settings, target.of_table(table)),
        tables=frozenset(target.generation_by_table),
        until=lambda job: batch_log.closed_until(settings, job.name, target.of_job(job)),
        generation=target.of_table("silver.late"),
        target=target,
    )


def on_day(side: Side, day: str) -> Side:
    """Take of an answer only the rows that become final on a day."""

    def frame(name: str) -> DataFrame:
        table = table_named(name)
        moment = table.final_at or table.changed_at
        rows = side.frame(name)
        return rows.filter(F.to_date(F.expr(moment)) == F.lit(day).cast("date")) if moment else rows

    return replace(side, frame=frame)


def compared(
    spark: SparkSession,
    settings: Settings,
    left: Side,
    right: Side,
    *,
    only: str | None = None,
    jobs: list[Job] | None = None,
    watch: Watch = lambda _: None,
) -> dict[str, Explained]:
    """Compare every gold table that both sides have, over what both call final, and explain what differs.

    left: the more complete answer; what it counts and the right one set aside as late is a reason. only: one table.
    jobs: those that made the left answer, where they are not the project's own.
    """
    behind = _evidence(spark, settings, left, right)
    both = {table.name for table in comparable_tables()} & left.tables & right.tables
    chosen = [job for job in jobs or list(all_jobs().values()) if job.writes[0] in both & {only or job.writes[0]}]

    def explained(job: Job) -> Explained:
        (name,) = job.writes
        table = table_named(name)
        watch(name)
        parity = compare(left.frame(name), right.frame(name), table, _until(job, left, right))
        return explain(parity, job, table.key, behind, _former(settings, job, right) if parity.rows else None)

    found = in_parallel(explained, chosen, settings.streaming.parallel_writes)
    return {job.writes[0]: each for job, each in zip(chosen, found, strict=True)}


def keep(settings: Settings, found: Mapping[str, Explained]) -> None:
    """Keep what a comparison came to, for the report."""
    now = datetime.now(UTC)
    tables = {name: {"equal": each.parity.equal, "by_reason": each.by_reason} for name, each in found.items()}
    file = storage(settings) / "reports" / "comparisons" / f"{now:%Y%m%dT%H%M%S%f}.json"
    file.write(json.dumps({"at": now.isoformat(timespec="seconds"), "tables": tables}, indent=1))


def comparable_tables() -> list[Table]:
    """List the tables that are compared."""
    return [table for table in tables().values() if table.layer == "gold"]


def _until(job: Job, left: Side, right: Side) -> datetime | None:
    known = [moment for moment in (left.until(job), right.until(job)) if moment]
    return min(known, default=None)


def _evidence(spark: SparkSession, settings: Settings, left: Side, right: Side) -> reasons.Evidence:
    """Say how to gather what may explain a difference; each is gathered once, and only if it is asked for."""
    enriched = "silver.clicks_enriched"
    lock = RLock()

    @_once(lock)
    def late() -> dict[str, DataFrame]:
        found: dict[str, DataFrame] = {}
        for side in (right, left):
            if side.generation is not None:
                aside = evidence.late(spark, settings, side.generation, left.frame("silver.users"))
                found = {name: found[name].unionByName(rows) if name in found else rows for name, rows in aside.items()}
        return found

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


def _former(settings: Settings, job: Job, side: Side) -> DataFrame | None:
    """Let the former version of a job tell what it makes of the inputs of the other answer, where there is one."""
    target = side.target or serving(settings)
    folder = job_folder(job.name, settings, target.of_job(job))
    before = code_version.recorded(folder)
    if not before or before["version"] == job.version:
        return None
    old = code_version.previous_job(folder, job.name)
    if old is None or old.query.transform is None:
        return None
    return first_per_key_spark(
        old.apply({name: side.frame(name) for name in old.reads}),
        table_named(job.writes[0]).key,
        old.bounded.pick_first_by,
    )
