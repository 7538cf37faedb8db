"""Comparison: two sides of silver and gold -> equal rows, and a reason for each differing row.

Tables are compared in data-flow order, as the differences of a job's inputs are what its rows are recomputed from.
"""

import json
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from threading import RLock

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from config.declarations import Table, landed_tables, table_named, tables
from config.parallel import in_parallel
from config.settings import Settings
from expectations.parity import inputs
from expectations.parity.inputs import Restriction
from expectations.parity.landed import compare_landed
from expectations.parity.outcomes import RECORD
from expectations.parity.reasons import BECAUSE, ONE_SIDED, Explained, Recomputed, explain
from expectations.parity.rows import compare
from expectations.parity.sides import Side, in_common, read_by
from lake.generations import serving
from lake.location import storage
from streaming.bounded import lookups
from streaming.checkpoint import job_folder
from streaming.job import Job
from streaming.job import jobs as all_jobs
from streaming.previous_code import previous_job

OnProgress = Callable[[str], None]


def compared(
    settings: Settings,
    left: Side,
    right: Side,
    *,
    only: Collection[str] | None = None,
    jobs: list[Job] | None = None,
    watch: OnProgress = lambda _: None,
) -> dict[str, Explained]:
    """Compare two sides row by row, and explain the differences.

    Silver is compared over the records that both sides have read, gold over the rows that are final in both.

    left: the more complete side; an event that it counts and the right side has as late is a reason.
    only: compare only these tables.
    jobs: the jobs that wrote the left side, if they are not the project's current jobs.
    """
    comparison = Comparison(settings, left, right, jobs or list(all_jobs().values()), watch)
    names = [name for name in comparison.tables() if only is None or name in only]
    found = in_parallel(comparison.explained, names, settings.streaming.parallel_writes)
    return dict(zip(names, found, strict=True))


def keep(settings: Settings, found: Mapping[str, Explained]) -> None:
    """Store the result of a comparison for the report."""
    now = datetime.now(UTC)
    tables = {name: {"equal": each.parity.equal, "by_reason": each.by_reason} for name, each in found.items()}
    file = storage(settings) / "reports" / "comparisons" / f"{now:%Y%m%dT%H%M%S%f}.json"
    file.write(json.dumps({"at": now.isoformat(timespec="seconds"), "tables": tables}, indent=1))


def comparable_tables() -> list[Table]:
    """List the tables that are compared: those that landing writes, then those that jobs compute from them."""
    computed = {job.writes[0] for job in all_jobs().values() if job.reads}
    return [*landed_tables(), *(table for table in tables().values() if table.name in computed)]


class Comparison:
    """The comparison of two sides; each table is compared once, when it or a table computed from it is asked for."""

    def __init__(self, settings: Settings, left: Side, right: Side, jobs: list[Job], watch: OnProgress) -> None:
        self._settings, self._left, self._right, self._watch = settings, left, right, watch
        self._writers = {job.writes[0]: job for job in jobs if job.reads}
        self._all_writers = {job.writes[0]: job for job in all_jobs().values() if job.reads} | self._writers
        self._found: dict[str, Explained] = {}
        self._locks = {name: RLock() for name in tables()}

    def tables(self) -> list[str]:
        """List the tables to compare, in the order of their layers."""
        both = self._left.tables & self._right.tables & self._writers.keys()
        names = [table.name for table in comparable_tables() if table.topic or table.name in both]
        return [name for name in names if not self._is_shared(name)]

    def explained(self, name: str) -> Explained:
        """Return the differences of a table, each with its reason."""
        with self._locks[name]:
            if name not in self._found:
                self._watch(name)
                table = table_named(name)
                if table.topic:
                    self._found[name] = compare_landed(self._left, self._right, table, self._settings)
                else:
                    self._found[name] = self._computed(self._all_writers[name], table)
            return self._found[name]

    def _is_shared(self, name: str) -> bool:
        """Return whether both sides have the same table, as a replay of some jobs does with the inputs of these."""
        left, right = self._left.target, self._right.target
        return bool(left and right and left.of_table(name) == right.of_table(name))

    def _computed(self, job: Job, table: Table) -> Explained:
        closed_until = self._closed_until(job)
        left, right = (side.frame(table.name) for side in (self._left, self._right))
        key = list(table.key)
        if not (table.final_at or table.changed_at) and table.lateness_of:  # one row per record of the topic
            key = list(RECORD)
            common = in_common(self._left, self._right, str(table.lateness_of))
            final = F.col("event_time") < F.lit(closed_until) if closed_until else F.lit(True)
            left, right = left.filter(common & final), right.filter(common & final)
        parity = compare(left, right, table, closed_until, key=key)
        restriction = Restriction(job, parity)
        return explain(
            parity,
            job,
            key,
            lambda: self._recomputed(job, restriction),
            (lambda: self._differences(job), lambda: self._beyond(job, restriction)),
        )

    def _closed_until(self, job: Job) -> datetime | None:
        known = [_closed_on(side, job) for side in (self._left, self._right)]
        bound = min((time for time in known if time), default=None)
        requested = self._right.requested_until(job)
        if bound and requested and self._left.target and self._left.target.replay:
            # What is served as final must not be missing once the replay is served.
            return max(bound, requested)
        return bound

    def _recomputed(self, job: Job, restriction: Restriction) -> Recomputed:
        """Compute a job's table again, at the keys that differ."""
        names = (*job.reads, *lookups(job))
        corrected = {name: self._corrected(name) for name in names}
        theirs = restriction.of({name: self._right.frame(name) for name in names})
        strategy = self._settings.streaming.late.get(job.name, "leave")
        previous = self._previous_job(job)
        return Recomputed(
            left=inputs.recomputed(job, restriction.of(corrected), self._left, strategy),
            right=inputs.recomputed(job, theirs, self._right, strategy),
            previous=inputs.recomputed(previous, theirs, self._right, strategy) if previous else None,
            outdated=inputs.outdated(job, theirs, self._right),
        )

    def _corrected(self, name: str) -> DataFrame:
        """Return an input of the left side, but with what the right side has wherever that has no reason."""
        rows = self._left.frame(name)
        found = None if self._is_shared(name) else self.explained(name)
        return inputs.corrected(rows, table_named(name), found) if found and found.unexplained else rows

    def _differences(self, job: Job) -> dict[str, DataFrame]:
        """Return the events in which the inputs of a job differ for a reason."""
        names = [name for name in job.reads if not self._is_shared(name)]
        found = {name: self.explained(name) for name in names}
        return {name: inputs.events(each, table_named(name)) for name, each in found.items() if each.by_reason}

    def _beyond(self, job: Job, restriction: Restriction) -> dict[str, DataFrame]:
        """Return the events of a job's inputs that only one side has read."""
        return {name: self._read_by_one(name, restriction) for name in job.reads if not self._is_shared(name)}

    def _read_by_one(self, name: str, restriction: Restriction) -> DataFrame:
        table = table_named(name)
        topic = str(table.topic or table.lateness_of)
        mine, theirs = (
            restriction.of({name: side.frame(name).filter(~read_by(other, topic))})[name].select(*table.stored)
            for side, other in ((self._left, self._right), (self._right, self._left))
        )
        return mine.unionByName(theirs).withColumn(BECAUSE, F.lit(ONE_SIDED))

    def _previous_job(self, job: Job) -> Job | None:
        """Load the version of a job that wrote the right side, if it is another one."""
        target = self._right.target or serving(self._settings)
        return previous_job(job, job_folder(job.name, self._settings, target.of_job(job)))


def _closed_on(side: Side, job: Job) -> datetime | None:
    """Return up to when a job's rows are final on a side.

    A job without state records a watermark one batch behind. Its rows are complete as far as those of the jobs that
    read them are final, which are explained by its differing rows.
    """
    stateless = not table_named(job.writes[0]).final_at
    readers = [each for each in all_jobs().values() if stateless and set(job.writes) & set(each.reads)]
    return max((time for each in (job, *readers) if (time := side.closed_until(each))), default=None)
