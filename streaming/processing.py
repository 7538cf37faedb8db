"""Processing: what Spark calls for each micro-batch of a job. It makes a Batch of it, and hands it to the job."""

import threading
from collections.abc import Callable
from datetime import datetime
from functools import cache

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from config.declarations import table_named
from config.settings import Settings
from lake.batch import Batch
from lake.generations import TableGenerations, has_replays, is_served
from streaming.checkpoint import Checkpoint, archived_up_to
from streaming.dropped_rows import dropped_in_batch, refuse_dropped_rows
from streaming.failures import Failures
from streaming.job import Job
from streaming.landing.archive import fill_gap
from streaming.tries import count_failure

RECORDS_WORTH_COMPILING = 20_000
Process = Callable[[DataFrame, int], None]


class Processing:
    """Processes the micro-batches of one run."""

    def __init__(
        self,
        settings: Settings,
        spark: SparkSession,
        target: TableGenerations,
        stopping: threading.Event,
        failures: Failures,
    ) -> None:
        """Process micro-batches until a stop is requested, or until another generation is served."""
        self._settings, self._spark, self._target = settings, spark, target
        self._stopping, self._failures = stopping, failures
        self.superseded = False
        self.counted: dict[str, bool] = {}
        """By job whose batch has failed: whether that counts as a try of the batch."""

    def of(self, job: Job, checkpoint: Checkpoint, open_from: datetime | None = None) -> Process:
        """Return the function that writes a job's micro-batches.

        open_from: leave out the rows that are final before this event time, which the history contains.
        """
        generation = self._target.of_job(job)
        landed = checkpoint.landed
        if job.topics and self._target.replay is None and has_replays(self._settings):
            # Records that another generation archived, also since this one was reset, are not archived a second time.
            archived = archived_up_to(self._settings)
            landed = {topic: max(archived.get(topic, -1), landed.get(topic, -1)) for topic in archived | landed}
            fill_gap(self._spark, self._settings, job, generation)

        def process(rows: DataFrame, batch_id: int) -> None:
            if self._target.replay is None and not is_served(self._settings, job, generation):
                self.superseded = True
                self._stopping.set()
            if self._stopping.is_set() or job in self._failures:
                # This batch began after the stop was requested: the next run repeats it from its start.
                raise Stopped
            dropped = cache(lambda: dropped_in_batch(self._spark, job.name) if job.reads else 0)
            if open_from:
                rows = rows.filter(F.expr(str(table_named(job.writes[0]).final_at)) >= F.lit(open_from))
            batch = Batch(
                rows=rows,
                job=job.name,
                id=batch_id,
                epoch=checkpoint.epoch,
                generation=generation,
                settings=self._settings,
                records=self.records(job, checkpoint, rows, batch_id),
                closed_until=checkpoint.watermark(batch_id),
                already_landed=landed,
                is_replay=self._target.replay is not None,
                dropped=dropped,
                input_generations=self._target.inputs_of(generation),
            )
            try:
                job.process(batch)
            except Exception as error:
                self.counted[job.name] = count_failure(checkpoint, batch_id, error) is not None
                raise
            if dropped():
                refuse_dropped_rows(job, self._settings, self._target)

        return process

    def records(self, job: Job, checkpoint: Checkpoint, rows: DataFrame, batch_id: int) -> int:
        """Return the number of log records in a batch; it decides whether Spark compiles the next one."""
        if not job.topics:
            return 0
        records = checkpoint.records(batch_id)
        compile_large(rows.sparkSession, records)
        return records


def write_nothing(_: DataFrame, __: int) -> None:
    """Process a micro-batch whose rows are written otherwise."""


def compile_large(spark: SparkSession, records: int) -> None:
    """Generate code for the next batch only if this one was large: for few records it takes longer than it saves."""
    large = records > RECORDS_WORTH_COMPILING
    spark.conf.set("spark.sql.codegen.wholeStage", large)
    spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK" if large else "NO_CODEGEN")


class Stopped(Exception):
    """Ends a batch that began after the stop was requested."""
