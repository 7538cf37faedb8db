"""The runner: jobs -> streaming queries. The only readStream and writeStream of the project."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta

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
from streaming.job import LOG, Job, in_stages
from streaming.job import jobs as all_jobs
from streaming.landing.archive import fill_gap
from streaming.progress import Followed, Progress, Watch
from streaming.query_errors import dropped_rows_error, explain_failure
from streaming.windows.late import refuse_unknown
from streaming.windows.salting import as_configured

STOP_SECONDS = 60
LIVE_SECONDS, CATCHING_UP_SECONDS = 0.5, 0.1
RECORDS_WORTH_COMPILING = 20_000
ARCHIVE = "bronze.events"


class Runner:
    """Runs jobs in one Spark session until they have caught up, or until they are told to stop."""

    def __init__(
        self,
        settings: Settings,
        spark: SparkSession,
        target: TableGenerations | None = None,
        *,
        allow_code_change: bool = False,
    ) -> None:
        """Run on the given session, for the tables that are served or those that a replay builds."""
        self.settings = settings
        self.spark = spark
        self.target = target or serving(settings)
        self.superseded = False
        self._allow_code_change = allow_code_change
        self._stopping = threading.Event()

    def run(self, jobs: list[Job], *, until_caught_up: bool, watch: Watch | None = None) -> list[Progress]:
        """Run the jobs, showing their progress, and stop them cleanly; give what each of them did last."""
        refuse_unknown(self.settings.streaming.late, [name for name, job in all_jobs().items() if job.handles_late])
        jobs = as_configured(jobs, self.settings)
        # To catch up, a job must begin when what it follows has ended; live, all run side by side.
        stages = in_stages(jobs) if until_caught_up else [jobs]
        every = CATCHING_UP_SECONDS if until_caught_up else LIVE_SECONDS
        followed: list[Followed] = []
        with single_writer(self.settings, [self.target.lock(job) for job in jobs]), stop_on_signal(self._stopping):
            try:
                for stage in stages:
                    if not self._stopping.is_set():
                        followed += [self._started(job, until_caught_up) for job in stage]
                        self._follow(followed, watch, every)
            finally:
                self._stop(followed)
            return [each.progress() for each in followed]

    def stop(self) -> None:
        """Ask a run in another thread to stop; it ends after the batch at hand."""
        self._stopping.set()

    def _started(self, job: Job, until_caught_up: bool) -> Followed:
        return Followed(job, self._start(job, until_caught_up), self.settings, self.target)

    def _start(self, job: Job, until_caught_up: bool) -> StreamingQuery:
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
        """Follow the archive as if it were the log: its commits are in the order in which records were read."""
        records = (
            self.spark.readStream.format("delta")
            .option("startingVersion", 0)
            .option("maxBytesPerTrigger", self.settings.streaming.archive_bytes_per_batch)
            .load(str(table_location(self.settings, ARCHIVE)))
        )
        return records.filter(records.topic.isin(*job.topics)).withColumnRenamed("arrival_time", "timestamp")

    def _table(self, name: str) -> DataFrame:
        """Follow a table commit by commit from its first, so that its rows come in the order in which they landed."""
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
            # What is late is not set aside in a replay, and its log was read at another pace: only its ledger knows.
            # But no less than live: it becomes the live job, and a watermark never goes back.
            delay = max(delay, disorder(self.settings, str(table.topic or table.lateness_of), generation))
        return rows.withWatermark("event_time", f"{int(delay.total_seconds()) + 1} seconds")

    def _processing(self, job: Job, checkpoint: Checkpoint) -> Callable[[DataFrame, int], None]:
        generation = self.target.of_job(job)
        landed = checkpoint.landed
        if job.topics and self.target.replay is None and has_replays(self.settings):
            # What another generation has archived is not archived twice; nor what it did since this one was reset.
            archived = archived_up_to(self.settings)
            landed = {topic: max(archived.get(topic, -1), landed.get(topic, -1)) for topic in archived | landed}
            fill_gap(self.spark, self.settings, job, generation)

        def process(rows: DataFrame, batch_id: int) -> None:
            if self.target.replay is None and not is_served(self.settings, job, generation):
                self.superseded = True
                self._stopping.set()
            if self._stopping.is_set():
                # Begun after the stop was asked for: leave it to the next run, which takes it from the top.
                raise _Stopped
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
                    input_generations={
                        name: number for name, number in self.target.generation_by_table.items() if number != generation
                    },
                )
            )

        return process

    def _records(self, job: Job, checkpoint: Checkpoint, rows: DataFrame, batch_id: int) -> int:
        """Count the records of the log in a batch, and let Spark compile the next accordingly."""
        if not job.topics:
            return 0
        if self.target.source == "bronze":
            return 0  # bounded by its bytes; to count its rows would be to read them twice
        records = checkpoint.records(batch_id)
        _compile(rows.sparkSession, records)
        return records

    def _follow(self, followed: list[Followed], watch: Watch | None, every: float) -> None:
        """Look at the queries every so many seconds until all have ended, one has failed, or a stop was asked for."""
        active = True
        while active and not self._stopping.is_set():
            active = any(each.query.isActive for each in followed)
            for each in followed:
                each.look()
                error = each.query.exception()
                if error is not None and not self._stopping.is_set():
                    raise explain_failure(each.job.name, error)
                if each.dropped:
                    raise dropped_rows_error(each.job.name, each.dropped)
            if watch:
                watch([each.progress() for each in followed])
            if active:
                self._stopping.wait(every)

    def _stop(self, followed: list[Followed]) -> None:
        """Let the batch at hand come to its end, then stop: a clean stop leaves no half-written batch to repeat.

        A batch that begins now ends itself. Spark is asked to stop a query only between two batches: interrupted on its
        way into Python, it would wait for an answer for ever.
        """
        self._stopping.set()
        deadline = time.monotonic() + STOP_SECONDS
        for each in followed:
            while each.query.isActive and each.query.status["isTriggerActive"] and time.monotonic() < deadline:
                time.sleep(0.05)
            each.query.stop()


def _compile(spark: SparkSession, records: int) -> None:
    """Let Spark generate code for the next batch only if this one was large: for a few records it is not worth it."""
    large = records > RECORDS_WORTH_COMPILING
    spark.conf.set("spark.sql.codegen.wholeStage", large)
    spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK" if large else "NO_CODEGEN")


class _Stopped(Exception):
    """Ends a batch that began after the stop was asked for."""
