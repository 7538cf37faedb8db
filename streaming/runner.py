"""The runner: jobs -> streaming queries. The only readStream and writeStream of the project."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from functools import cache

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from config.declarations import table_named
from config.kafka import spark_source_options
from config.settings import Settings
from config.signals import stop_on_signal
from lake.batch import Batch
from lake.generations import TableGenerations, has_replays, is_served, serving
from lake.ledger import disorder
from lake.location import table_location
from lake.locks import single_writer
from lake.tables import create_missing
from streaming.checkpoint import Checkpoint, archived_up_to, open_checkpoint
from streaming.dropped_rows import dropped_in_batch, refuse_dropped_rows
from streaming.job import LOG, Job, in_stages
from streaming.job import jobs as all_jobs
from streaming.landing.archive import fill_gap
from streaming.progress import OnProgress, Progress, RunningQuery
from streaming.query_errors import explain_failure
from streaming.windows.late import refuse_unknown
from streaming.windows.salting import as_configured

STOP_SECONDS = 60
LIVE_SECONDS, CATCHING_UP_SECONDS = 0.5, 0.1
RECORDS_WORTH_COMPILING = 20_000
ARCHIVE = "bronze.events"


class Runner:
    """Runs jobs in one Spark session until they have caught up, or until a stop is requested."""

    def __init__(
        self,
        settings: Settings,
        spark: SparkSession,
        target: TableGenerations | None = None,
        *,
        allow_code_change: bool = False,
    ) -> None:
        """Run jobs on a session; target: the served generations by default, or those that a replay builds."""
        self.settings = settings
        self.spark = spark
        self.target = target or serving(settings)
        self.superseded = False
        self._allow_code_change = allow_code_change
        self._stopping = threading.Event()

    def run(self, jobs: list[Job], *, until_caught_up: bool, on_progress: OnProgress | None = None) -> list[Progress]:
        """Run the jobs, report their progress, and stop them cleanly; return the last progress of each."""
        refuse_unknown(self.settings.streaming.late, [name for name, job in all_jobs().items() if job.handles_late])
        jobs = as_configured(jobs, self.settings)
        # To catch up, a job starts when the jobs that write its input tables have ended. Live, all jobs run at once.
        stages = in_stages(jobs) if until_caught_up else [jobs]
        poll_seconds = CATCHING_UP_SECONDS if until_caught_up else LIVE_SECONDS
        running: list[RunningQuery] = []
        with single_writer(self.settings, [self.target.lock(job) for job in jobs]), stop_on_signal(self._stopping):
            try:
                for stage in stages:
                    if not self._stopping.is_set():
                        running += [self._started(job, until_caught_up) for job in stage]
                        self._poll(running, on_progress, poll_seconds)
            finally:
                self._stop(running)
            return [query.progress() for query in running]

    def stop(self) -> None:
        """Ask a run in another thread to stop; it ends after the current batch."""
        self._stopping.set()

    def _started(self, job: Job, until_caught_up: bool) -> RunningQuery:
        return RunningQuery(job, self._start(job, until_caught_up), self.settings, self.target)

    def _start(self, job: Job, until_caught_up: bool) -> StreamingQuery:
        refuse_dropped_rows(job, self.settings, self.target)
        generation = self.target.of_job(job)
        checkpoint = open_checkpoint(
            job,
            self.settings,
            generation,
            reads_log=self.target.source == "kafka",
            allow_code_change=self._allow_code_change,
        )
        for name in (*job.reads, *job.writes):
            create_missing([name], self.settings, self.target.of_table(name))
        streams = {LOG: self._log(job, checkpoint)} if job.topics else {name: self._table(name) for name in job.reads}
        writer = (
            job.apply(streams)
            .writeStream.queryName(job.name)
            .outputMode(job.query.output_mode)
            .option("checkpointLocation", str(checkpoint.location))
            .foreachBatch(self._processing(job, checkpoint))
        )
        if until_caught_up:
            return writer.trigger(availableNow=True).start()
        configured = self.settings.streaming
        seconds = configured.trigger_seconds if job.topics else configured.table_trigger_seconds
        return writer.trigger(processingTime=f"{seconds} seconds").start()

    def _log(self, job: Job, checkpoint: Checkpoint) -> DataFrame:
        if self.target.source == "bronze":
            return self._archive(job)
        starting = checkpoint.starting_offsets if checkpoint.starting_offsets != "earliest" else self.target.starting
        return (
            self.spark.readStream.format("kafka")
            .options(**spark_source_options(self.settings))
            .option("subscribe", ",".join(job.topics))
            .option("startingOffsets", starting)
            .option("maxOffsetsPerTrigger", self.settings.streaming.records_per_batch)
            .option("includeHeaders", True)
            .load()
        )

    def _archive(self, job: Job) -> DataFrame:
        """Read the archive as a stream in place of the log: its commits keep the order in which records were read."""
        records = (
            self.spark.readStream.format("delta")
            .option("startingVersion", 0)
            .option("maxBytesPerTrigger", self.settings.streaming.archive_bytes_per_batch)
            .load(str(table_location(self.settings, ARCHIVE)))
        )
        return records.filter(records.topic.isin(*job.topics)).withColumnRenamed("arrival_time", "timestamp")

    def _table(self, name: str) -> DataFrame:
        """Read a table as a stream, commit by commit from the first, so that rows arrive in the order they landed."""
        table = table_named(name)
        generation = self.target.of_table(name)
        rows = (
            self.spark.readStream.format("delta")
            .option("startingVersion", 0)
            .load(str(table_location(self.settings, table.name, generation)))
        )
        if table.disorder is None:
            return rows
        delay = table.disorder + timedelta(minutes=self.settings.streaming.skew_minutes)
        if self.target.replay == generation:
            # A replay does not put late rows aside, and it reads the log at another rate: only its ledger has the
            # disorder of its rows. Never less than live: the replay becomes the live job, and a watermark never
            # moves back.
            delay = max(delay, disorder(self.settings, str(table.topic or table.lateness_of), generation))
        return rows.withWatermark("event_time", f"{int(delay.total_seconds()) + 1} seconds")

    def _processing(self, job: Job, checkpoint: Checkpoint) -> Callable[[DataFrame, int], None]:
        generation = self.target.of_job(job)
        landed = checkpoint.landed
        if job.topics and self.target.replay is None and has_replays(self.settings):
            # Records that another generation archived, also since this one was reset, are not archived a second time.
            archived = archived_up_to(self.settings)
            landed = {topic: max(archived.get(topic, -1), landed.get(topic, -1)) for topic in archived | landed}
            fill_gap(self.spark, self.settings, job, generation)

        def process(rows: DataFrame, batch_id: int) -> None:
            if self.target.replay is None and not is_served(self.settings, job, generation):
                self.superseded = True
                self._stopping.set()
            if self._stopping.is_set():
                # This batch began after the stop was requested: the next run repeats it from its start.
                raise _Stopped
            dropped = cache(lambda: dropped_in_batch(self.spark, job.name) if job.reads else 0)
            job.process(
                Batch(
                    rows=rows,
                    job=job.name,
                    id=batch_id,
                    epoch=checkpoint.epoch,
                    generation=generation,
                    settings=self.settings,
                    records=self._records(job, checkpoint, rows, batch_id),
                    closed_until=checkpoint.watermark(batch_id),
                    already_landed=landed,
                    is_replay=self.target.replay is not None,
                    dropped=dropped,
                    input_generations={
                        name: number for name, number in self.target.generation_by_table.items() if number != generation
                    },
                )
            )
            if dropped():
                refuse_dropped_rows(job, self.settings, self.target)

        return process

    def _records(self, job: Job, checkpoint: Checkpoint, rows: DataFrame, batch_id: int) -> int:
        """Return the number of log records in a batch; it decides whether Spark compiles the next one."""
        if not job.topics:
            return 0
        if self.target.source == "bronze":
            return 0  # the batch is bounded by bytes, and counting its rows would read them twice
        records = checkpoint.records(batch_id)
        _compile(rows.sparkSession, records)
        return records

    def _poll(self, running: list[RunningQuery], on_progress: OnProgress | None, poll_seconds: float) -> None:
        """Poll the queries until all have ended, one has failed, or a stop was requested."""
        active = True
        while active and not self._stopping.is_set():
            active = any(each.query.isActive for each in running)
            for each in running:
                each.update()
                error = each.query.exception()
                if error is not None and not self._stopping.is_set():
                    refuse_dropped_rows(each.job, self.settings, self.target)
                    raise explain_failure(each.job.name, error)
            if on_progress:
                on_progress([each.progress() for each in running])
            if active:
                self._stopping.wait(poll_seconds)

    def _stop(self, running: list[RunningQuery]) -> None:
        """Let the current batch finish, then stop the queries, so that no half-written batch must be repeated.

        A batch that begins after this call ends itself. A query is stopped only between two batches: interrupted while
        it calls Python, it would wait for an answer forever.
        """
        self._stopping.set()
        deadline = time.monotonic() + STOP_SECONDS
        for each in running:
            while each.query.isActive and each.query.status["isTriggerActive"] and time.monotonic() < deadline:
                time.sleep(0.05)
            each.query.stop()


def _compile(spark: SparkSession, records: int) -> None:
    """Generate code for the next batch only if this one was large: for few records it takes longer than it saves."""
    large = records > RECORDS_WORTH_COMPILING
    spark.conf.set("spark.sql.codegen.wholeStage", large)
    spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK" if large else "NO_CODEGEN")


class _Stopped(Exception):
    """Ends a batch that began after the stop was requested."""
