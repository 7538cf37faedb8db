"""Closing: what is still open when the events stop coming -> final rows, on request.

A watermark moves only with events: when a topic falls idle its last windows, sessions and unpaid orders stay open.
Every job's transformation is right on bounded tables too, so what is open is worked out from the tables as they are
and saved as the job itself would; state and watermark stay as they are. Should events come after all, the stream's own
rows take the place of these, by key; only a session whose beginning moves leaves its closed row behind.
"""

import time
from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from config.declarations import table_named
from config.settings import Settings
from lake.batch import Batch
from lake.batch_log import closed_until, record_batch
from lake.generations import TableGenerations, serving
from lake.tables import read
from streaming.checkpoint import last_checkpoint
from streaming.job import Job


def close(
    job: Job,
    settings: Settings,
    spark: SparkSession,
    target: TableGenerations | None = None,
    until: datetime | None = None,
) -> datetime | None:
    """Close what is open of a job, or what ends before a moment; record it; give when all before is final now."""
    target = target or serving(settings)
    generation = target.of_job(job)
    (name,) = job.writes
    final_at = table_named(name).final_at
    if final_at is None or job.query.transform is None:
        return None
    before = closed_until(settings, job.name, generation)
    if job.query.output_mode == "append":
        tables = {table: read(spark, table, settings, target.of_table(table)) for table in job.reads}
        # Computed before it is filtered: Spark would filter the events by their own 30 minutes, not the session's end.
        source = job.apply(tables).localCheckpoint()
        source = source.filter(F.expr(final_at) >= F.lit(before)) if before else source
        source = source.filter(F.expr(final_at) < F.lit(until)) if until else source
    else:
        source = read(spark, name, settings, generation)  # all is there: only that it is final is new
    last = source.agg(F.max(F.expr(final_at))).collect()[0][0]
    if until is None and last is None:
        return before
    batch = Batch(
        rows=source,
        job=job.name,
        id=time.time_ns() // 1_000_000,
        epoch=last_checkpoint(job, settings, generation).epoch,
        generation=generation,
        settings=settings,
        closing=True,
        closed_until=until or last.replace(tzinfo=UTC) + timedelta(milliseconds=1),
    )
    if job.query.output_mode == "append":
        job.process(batch)
    else:
        record_batch(batch, 0)
    return batch.closed_until
