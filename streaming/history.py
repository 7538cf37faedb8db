"""History: a job that starts on tables with rows computes them in one bounded pass; its stream starts at their tail.

The two meet at the watermark that a stream over the same rows would have reached. Rows that are final before it come
from the bounded pass, in one commit. All other rows come from the stream, which first reads the tail of its inputs:
every event that counts in a row that is still open. So its state holds what is open, as if it had read everything.

Nothing here needs the first version of a table, or rows in the order in which they landed: a table may be compacted,
and its log may be cleaned up. If commits arrive meanwhile, the stream reads them; they cannot change a final row.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from config.declarations import Table, table_named
from config.failpoints import failpoint
from config.settings import Settings
from lake import batch_log
from lake.batch import Batch
from lake.generations import TableGenerations
from lake.location import Location, table_location
from lake.tables import columns, next_version, read
from streaming.bounded import OVERRIDES, lookups, recompute
from streaming.checkpoint import Checkpoint
from streaming.job import Job, jobs
from streaming.sources import live_delay
from streaming.start import Start
from streaming.windows.salting import UNSALTED, Saltable


def empty_tables(jobs: Iterable[Job], settings: Settings, target: TableGenerations) -> dict[str, int]:
    """Return the input tables of some jobs that have no rows, each with its version; a missing one starts at 0."""
    found = {}
    for name in {name for job in jobs for name in job.reads}:
        location = table_location(settings, name, target.of_table(name))
        table = location.table() if location.is_table() else None
        if table is None or not table.file_uris():
            found[name] = table.version() if table else 0
    return found


class History:
    """Computes what a job would have written of the rows that its input tables have."""

    def __init__(self, settings: Settings, spark: SparkSession, target: TableGenerations) -> None:
        """Compute history in one session, into the generations of a target."""
        self._settings, self._spark, self._target = settings, spark, target

    def writes_all(self, job: Job) -> bool:
        """Return whether history is all rows of a job's table, because the job has no state, and so no open rows."""
        return job.query.transform is None and _has_bounded_form(job)

    def final_rows(self, job: Job, checkpoint: Checkpoint) -> Start:
        """Write the rows of a stateful job that are final, in one commit; return where its stream starts."""
        start = Start(history="computed")
        if job.query.transform is None or not _has_bounded_form(job):
            return start
        versions = {name: self._location(name).table().version() for name in (*job.reads, *lookups(job))}
        inputs = self._inputs(versions)
        watermark = self._watermark(job, inputs)
        if watermark is None:
            return start
        rows = self._recomputed(job, inputs)
        table = table_named(job.writes[0])
        if job.bounded.starts_at:
            # Compute before filtering: Spark would push the filter below a session window, to each event's own end.
            rows = rows.localCheckpoint()
        final_at = F.expr(str(table.final_at))
        tail_from = self._tail_from(job, rows.filter(final_at >= F.lit(watermark)), watermark)
        self._write(job, table, rows.filter(final_at < F.lit(watermark)), checkpoint, watermark)
        return replace(start, final_before=watermark, tail_from=tail_from)

    def all_rows(self, job: Job, checkpoint: Checkpoint) -> None:
        """Write all rows of a job without state, as of the commits that its stream has read without writing them.

        An interrupted start has read some, and the one that repeated it those that came since: the last batch counts.
        """
        # An index below 0 points before the first file of a version: that version is not read yet.
        ends = {end["reservoirId"]: end["reservoirVersion"] - (end["index"] < 0) for end in checkpoint.table_offsets()}
        versions: dict[str, int] = {}
        for name in job.reads:
            versions[name] = ends[str(self._location(name).table().metadata().id)]
        for name in lookups(job):
            versions[name] = self._location(name).table().version()
        self._write(job, table_named(job.writes[0]), self._recomputed(job, self._inputs(versions)), checkpoint, None)

    def _inputs(self, versions: Mapping[str, int]) -> dict[str, DataFrame]:
        return {
            name: read(self._spark, name, self._settings, self._target.of_table(name), version)
            for name, version in versions.items()
        }

    def _recomputed(self, job: Job, inputs: Mapping[str, DataFrame]) -> DataFrame:
        transform = job.query.transform
        if isinstance(transform, Saltable):  # groups of a key exist in the stream's state only
            job = replace(job, query=replace(job.query, transform=replace(transform, salt=UNSALTED)))
        return recompute(job, inputs)

    def _watermark(self, job: Job, inputs: Mapping[str, DataFrame]) -> datetime | None:
        """Return the watermark of a stream that has read all rows; None while an input has none."""
        moments = []
        for name in job.reads:
            delay = live_delay(table_named(name), self._settings)
            if delay is None:
                continue
            latest = inputs[name].agg(F.max("event_time")).collect()[0][0]
            if latest is None:
                return None
            moments.append(latest.replace(tzinfo=UTC) - delay)
        return min(moments, default=None)

    def _tail_from(self, job: Job, open_rows: DataFrame, watermark: datetime) -> datetime | None:
        """Return the earliest event time that counts in a row that is open, or that will be."""
        if job.bounded.reach is None:
            return None
        found = [watermark - job.bounded.reach]
        if job.bounded.starts_at:
            earliest = open_rows.agg(F.min(F.expr(job.bounded.starts_at))).collect()[0][0]
            found += [earliest.replace(tzinfo=UTC)] if earliest else []
        return min(found)

    def _write(
        self, job: Job, table: Table, rows: DataFrame, checkpoint: Checkpoint, closed_until: datetime | None
    ) -> None:
        """Write the history of a table in one commit; a repeated start replaces what an interrupted one has written."""
        generation = self._target.of_job(job)
        writer = rows.select(*columns(table)).write.format("delta").mode("overwrite")
        if table.partitioned_by:
            writer = writer.partitionBy(*table.partitioned_by)
        location = table_location(self._settings, table.name, generation)
        writer.save(str(location))
        failpoint(f"after history of {table.name}")
        batch = Batch(
            rows=rows,
            job=job.name,
            id=0,
            epoch=checkpoint.epoch,
            generation=generation,
            settings=self._settings,
            part="history",
            closed_until=closed_until,
        )
        log = batch_log.folder(self._settings, job.name, generation)
        batch = replace(batch, id=next_version(batch.txn_app_id, log))
        batch_log.record_batch(batch, location.table().to_pyarrow_dataset().count_rows())

    def _location(self, name: str) -> Location:
        return table_location(self._settings, name, self._target.of_table(name))


def _has_bounded_form(job: Job) -> bool:
    """Return whether a job's table can be computed from complete inputs; otherwise its stream reads all rows.

    A job that is tried out in place of the project's own may differ from what is computed in its place.
    """
    known = jobs().get(job.name)
    if known is None or job.name not in OVERRIDES:
        return job.query.transform is not None
    return known.process is job.process and _unsalted(known) is _unsalted(job)


def _unsalted(job: Job) -> object:
    transform = job.query.transform
    return transform.transform if isinstance(transform, Saltable) else transform
