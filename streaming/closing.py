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
from streaming.batches import closed_until, record
from streaming.checkpoint import last_checkpoint
from streaming.job import Batch, Job
from streaming.tables import read

GENERATION = 1


def close(job: Job, settings: Settings, spark: SparkSession) -> datetime | None:
    """Close what is open of a job, and record it; give the moment before which all is final now."""
    (name,) = job.writes
    final_at = table_named(name).final_at
    if final_at is None or job.transform is None:
        return None
    rows = job.of({table: read(spark, table, settings.warehouse, GENERATION) for table in job.reads})
    before = closed_until(settings, job.name, GENERATION)
    if job.mode == "append":
        # Computed before it is filtered: Spark would filter the events by their own 30 minutes, not the session's end.
        source = rows.localCheckpoint()
        source = source.filter(F.expr(final_at) >= F.lit(before)) if before else source
    else:
        source = read(spark, name, settings.warehouse, GENERATION)  # all is there: only that it is final is new
    last = source.agg(F.max(F.expr(final_at))).collect()[0][0]
    if last is None:
        return before
    batch = Batch(
        rows=source,
        job=job.name,
        id=time.time_ns() // 1_000_000,
        epoch=last_checkpoint(job, settings, GENERATION).epoch,
        generation=GENERATION,
        settings=settings,
        closing=True,
        closed_until=last.replace(tzinfo=UTC) + timedelta(milliseconds=1),
    )
    if job.mode == "append":
        job.process(batch)
    else:
        record(batch, 0)
    return batch.closed_until
