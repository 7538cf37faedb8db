"""The runner: jobs -> streaming queries. The only readStream and writeStream of the project."""

import re
import signal
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from types import FrameType

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from config.declarations import table_named
from config.errors import LakehouseError
from config.kafka import spark_options
from config.settings import Settings
from streaming.checkpoint import Checkpoint, open_checkpoint
from streaming.job import Batch, Job, in_stages
from streaming.job import jobs as all_jobs
from streaming.late import refuse_unknown
from streaming.lock import writing
from streaming.progress import Followed, Progress, Watch
from streaming.tables import create_missing

GENERATION = 1
STOP_SECONDS = 60
RECORDS_WORTH_COMPILING = 20_000


class Runner:
    """Runs jobs in one Spark session until they have caught up, or until they are told to stop."""

    def __init__(self, settings: Settings, spark: SparkSession) -> None:
        """Run on the given session."""
        self.settings = settings
        self.spark = spark
        self._stopping = threading.Event()

    def run(self, jobs: list[Job], *, until_caught_up: bool, watch: Watch | None = None) -> list[Progress]:
        """Run the jobs, showing their progress, and stop them cleanly; give what each of them did last."""
        refuse_unknown(self.settings.streaming.late, [name for name, job in all_jobs().items() if job.minds_late])
        # To catch up, a job must begin when what it follows has ended; live, all run side by side.
        stages = in_stages(jobs) if until_caught_up else [jobs]
        followed: list[Followed] = []
        with writing(self.settings, [job.name for job in jobs]):
            restore = self._on_signals()
            try:
                for stage in stages:
                    if not self._stopping.is_set():
                        followed += [Followed(job, self._start(job, until_caught_up), self.settings) for job in stage]
                        self._follow(followed, watch)
            finally:
                self._stop(followed)
                restore()
            return [each.progress() for each in followed]

    def stop(self) -> None:
        """Ask a run in another thread to stop; it ends after the batch at hand."""
        self._stopping.set()

    def _start(self, job: Job, until_caught_up: bool) -> StreamingQuery:
        checkpoint = open_checkpoint(job, self.settings, GENERATION)
        create_missing((*job.reads, *job.writes), self.settings.warehouse, GENERATION)
        streams = {"log": self._log(job, checkpoint)} if job.topics else {name: self._table(name) for name in job.reads}
        writer = (
            job.of(streams)
            .writeStream.queryName(job.name)
            .outputMode(job.mode)
            .option("checkpointLocation", str(checkpoint.path))
            .foreachBatch(self._processing(job, checkpoint))
        )
        if until_caught_up:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{self.settings.streaming.trigger_seconds} seconds").start()

    def _log(self, job: Job, checkpoint: Checkpoint) -> DataFrame:
        return (
            self.spark.readStream.format("kafka")
            .options(**spark_options(self.settings))
            .option("subscribe", ",".join(job.topics))
            .option("startingOffsets", checkpoint.starting_offsets)
            .option("maxOffsetsPerTrigger", self.settings.streaming.records_per_batch)
            .option("kafka.isolation.level", "read_committed")
            .option("includeHeaders", True)
            .load()
            .coalesce(2 * self.settings.spark.cores)  # as many files in each commit, whatever the number of partitions
        )

    def _table(self, name: str) -> DataFrame:
        """Follow a table commit by commit from its first, so that its rows come in the order in which they landed."""
        table = table_named(name)
        rows = (
            self.spark.readStream.format("delta")
            .option("startingVersion", 0)
            .load(str(table.path(self.settings.warehouse, GENERATION)))
        )
        if table.disorder is None:
            return rows
        delay = table.disorder + timedelta(minutes=self.settings.streaming.skew_minutes)
        return rows.withWatermark("event_time", f"{int(delay.total_seconds())} seconds")

    def _processing(self, job: Job, checkpoint: Checkpoint) -> Callable[[DataFrame, int], None]:
        def process(rows: DataFrame, batch_id: int) -> None:
            if self._stopping.is_set():
                # Begun after the stop was asked for: leave it to the next run, which takes it from the top.
                raise _Stopped
            records = checkpoint.records(batch_id) if job.topics else 0
            if job.topics:
                _compile(rows.sparkSession, records)
            job.process(
                Batch(
                    rows=rows,
                    job=job.name,
                    id=batch_id,
                    epoch=checkpoint.epoch,
                    generation=GENERATION,
                    settings=self.settings,
                    records=records,
                    closed_until=checkpoint.watermark(batch_id),
                    landed=checkpoint.landed,
                )
            )

        return process

    def _follow(self, followed: list[Followed], watch: Watch | None) -> None:
        """Watch the queries until all have ended, one has failed, or a stop was asked for."""
        active = True
        while active and not self._stopping.is_set():
            active = any(each.query.isActive for each in followed)
            for each in followed:
                each.look()
                error = each.query.exception()
                if error is not None and not self._stopping.is_set():
                    raise _explained(each.job.name, error)
                if each.dropped:
                    raise _dropping(each.job.name, each.dropped)
            if watch:
                watch([each.progress() for each in followed])
            if active:
                self._stopping.wait(0.5)

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

    def _on_signals(self) -> Callable[[], None]:
        """Make Ctrl-C and kill mean: stop cleanly. pyspark's own handler would cancel the batch at hand."""
        if threading.current_thread() is not threading.main_thread():
            return lambda: None

        def ask_to_stop(_signal: int, _frame: FrameType | None) -> None:
            self._stopping.set()

        before = {name: signal.signal(name, ask_to_stop) for name in (signal.SIGINT, signal.SIGTERM)}

        def restore() -> None:
            for name, handler in before.items():
                signal.signal(name, handler)

        return restore


def _compile(spark: SparkSession, records: int) -> None:
    """Let Spark generate code for the next batch only if this one was large: for a few records it is not worth it."""
    large = records > RECORDS_WORTH_COMPILING
    spark.conf.set("spark.sql.codegen.wholeStage", large)
    spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK" if large else "NO_CODEGEN")


class _Stopped(Exception):
    """Ends a batch that began after the stop was asked for."""


def _explained(job: str, error: StreamingQueryException) -> LakehouseError:
    text = str(error)
    if "OffsetOutOfRange" in text or "data may have been lost" in text.lower() or "DATA_LOSS" in text:
        return LakehouseError(
            f"'{job}' stopped: Kafka no longer holds records that were not landed yet.\n{_first_lines(text)}",
            "Check the topics' retention in config/topics; nothing was skipped.",
        )
    return LakehouseError(
        f"'{job}' stopped: {_first_lines(text)}",
        f"Nothing is lost: `lakehouse stream run {job}` goes on where it stopped. More in logs/spark.log of the home.",
    )


def _dropping(job: str, rows: int) -> LakehouseError:
    return LakehouseError(
        f"'{job}' stopped: Spark dropped {rows:,} rows that came after their window had closed. "
        "Partitions were read further apart than streaming.skew_minutes allows.",
        f"Raise streaming.skew_minutes, then make the table again: lakehouse stream reset {job}",
    )


def _first_lines(text: str, count: int = 6) -> str:
    """Give the beginning of an error; of one raised in Python, what it says, which stands at the traceback's end."""
    raised = re.findall(
        r"^\w[\w.]*(?:Error|Exception)\b.*$", text.partition("Traceback (most recent call last)")[2], re.M
    )
    if raised:
        return str(raised[-1])
    return "\n".join(line for line in text.splitlines()[:count] if line.strip())
