"""Closing: rows still open when events stop arriving -> final rows, on request.

A watermark moves only with events: when a topic is idle, its last windows, sessions and unpaid orders stay open.
Every job's transformation is correct on bounded tables too, so closing computes the open rows from the current tables
and writes them as the job would; it does not touch the state or the watermark. If more events arrive, the rows of the
stream replace the closed rows by key; only a session whose start moves leaves its closed row behind.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from config.declarations import table_named
from config.settings import Settings
from lake import batch_log
from lake.batch import Batch
from lake.generations import TableGenerations, serving
from lake.tables import next_version, read
from streaming.checkpoint import last_checkpoint
from streaming.job import Job


def close(
    job: Job,
    settings: Settings,
    spark: SparkSession,
    target: TableGenerations | None = None,
    closed_until: datetime | None = None,
) -> datetime | None:
    """Finalize a job's open rows, or those final before `closed_until`; return the new closed-until time."""
    target = target or serving(settings)
    generation = target.of_job(job)
    (name,) = job.writes
    final_at = table_named(name).final_at
    if final_at is None or job.query.transform is None:
        return None
    closed_before = batch_log.closed_until(settings, job.name, generation)
    if job.query.output_mode == "append":
        tables = {table: read(spark, table, settings, target.of_table(table)) for table in job.reads}
        # Compute before filtering: Spark would push the filter down to each event's own 30 minutes, not the session's.
        source = job.apply(tables).localCheckpoint()
        source = source.filter(F.expr(final_at) >= F.lit(closed_before)) if closed_before else source
        source = source.filter(F.expr(final_at) < F.lit(closed_until)) if closed_until else source
    else:
        source = read(spark, name, settings, generation)  # already written; only closed_until changes
    last = source.agg(F.max(F.expr(final_at))).collect()[0][0]
    if closed_until is None and last is None:
        return closed_before
    batch = Batch(
        rows=source,
        job=job.name,
        id=0,
        epoch=last_checkpoint(job, settings, generation).epoch,
        generation=generation,
        settings=settings,
        part="close",
        closed_until=closed_until or last.replace(tzinfo=UTC) + timedelta(milliseconds=1),
    )
    # A repeated closing is a new write: it replaces rows by key.
    log = batch_log.folder(settings, job.name, generation)
    batch = replace(batch, id=next_version(batch.txn_app_id, batch.location(name), log))
    if job.query.output_mode == "append":
        job.process(batch)
    else:
        batch_log.record_batch(batch, 0)
    return batch.closed_until
