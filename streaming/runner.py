"""The runner: jobs -> streaming queries. The only readStream and writeStream of the project."""

import json
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from config.errors import LakehouseError
from config.kafka import spark_options
from config.settings import Settings
from streaming.checkpoint import Checkpoint, open_checkpoint
from streaming.job import Batch, Job
from streaming.lock import writing
from streaming.tables import create_missing

GENERATION = 1
STOP_SECONDS = 60


@dataclass(frozen=True)
class Progress:
    """What a running job last did, as people want to see it."""

    job: str
    state: str
    batch: int
    done: int
    waiting: int
    rows_per_second: float
    batch_seconds: float


Watch = Callable[[list[Progress]], None]


class Runner:
    """Runs jobs in one Spark session until they have caught up, or until they are told to stop."""

    def __init__(self, settings: Settings, spark: SparkSession) -> None:
        """Run on the given session."""
        self.settings = settings
        self.spark = spark
        self._stopping = threading.Event()
        self._busy: dict[str, threading.Lock] = {}

    def run(self, jobs: list[Job], *, until_caught_up: bool, watch: Watch | None = None) -> list[Progress]:
        """Run the jobs, showing their progress, and stop them cleanly; give what each of them did last."""
        with writing(self.settings, [job.name for job in jobs]):
            followed = [_Followed(job.name, self._start(job, until_caught_up)) for job in jobs]
            restore = self._on_signals()
            try:
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
        create_missing(job.writes, self.settings.warehouse, GENERATION)
        writer = (
            self._read(job, checkpoint)
            .writeStream.queryName(job.name)
            .option("checkpointLocation", str(checkpoint.path))
            .foreachBatch(self._processing(job, checkpoint))
        )
        if until_caught_up:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{self.settings.streaming.trigger_seconds} seconds").start()

    def _read(self, job: Job, checkpoint: Checkpoint) -> DataFrame:
        return (
            self.spark.readStream.format("kafka")
            .options(**spark_options(self.settings))
            .option("subscribe", ",".join(job.topics))
            .option("startingOffsets", checkpoint.starting_offsets)
            .option("maxOffsetsPerTrigger", self.settings.streaming.records_per_batch)
            .option("kafka.isolation.level", "read_committed")
            .option("includeHeaders", True)
            .load()
        )

    def _processing(self, job: Job, checkpoint: Checkpoint) -> Callable[[DataFrame, int], None]:
        busy = self._busy.setdefault(job.name, threading.Lock())

        def process(rows: DataFrame, batch_id: int) -> None:
            with busy:
                if self._stopping.is_set():
                    # Begun after the stop was asked for: leave it to the next run, which takes it from the top.
                    raise _Stopped
                job.process(
                    Batch(rows, job.name, batch_id, checkpoint.epoch, GENERATION, self.settings, checkpoint.landed)
                )

        return process

    def _follow(self, followed: list["_Followed"], watch: Watch | None) -> None:
        while not self._stopping.is_set():
            for each in followed:
                each.look()
            if watch:
                watch([each.progress() for each in followed])
            if not any(each.query.isActive for each in followed):
                break
            self._stopping.wait(0.5)
        for each in followed:
            each.look()
            error = each.query.exception()
            if error is not None and not self._stopping.is_set():
                raise _explained(each.job, error)

    def _stop(self, followed: list["_Followed"]) -> None:
        """Let the batch at hand come to its end, then stop: a clean stop leaves no half-written batch to repeat."""
        self._stopping.set()
        for each in followed:
            ended = self._busy[each.job].acquire(timeout=STOP_SECONDS)
            each.query.stop()
            if ended:
                self._busy[each.job].release()

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


class _Stopped(Exception):
    """Ends a batch that began after the stop was asked for."""


class _Followed:
    """A query, and what has been seen of it."""

    def __init__(self, job: str, query: StreamingQuery) -> None:
        self.job = job
        self.query = query
        self._started = time.monotonic()
        self._seen: set[tuple[str, int]] = set()
        self._done = 0
        self._last: dict[str, Any] = {}

    def look(self) -> None:
        for report in self.query.recentProgress:
            progress = json.loads(report.json)
            place = (progress["runId"], progress["batchId"])
            if place not in self._seen and "addBatch" in progress["durationMs"]:
                self._seen.add(place)
                self._done += _offsets_between(progress, "startOffset", "endOffset")
                self._last = progress

    def progress(self) -> Progress:
        seconds = self._last.get("durationMs", {}).get("triggerExecution", 0) / 1000
        rows = _offsets_between(self._last, "startOffset", "endOffset")
        return Progress(
            job=self.job,
            state="running" if self.query.isActive else "stopped",
            batch=int(self._last.get("batchId", -1)),
            done=self._done,
            waiting=_offsets_between(self._last, "endOffset", "latestOffset"),
            rows_per_second=rows / seconds if seconds else 0.0,
            batch_seconds=seconds,
        )


def _offsets_between(progress: dict[str, Any], low: str, high: str) -> int:
    """Count the offsets between two ends of a progress report, over all topics and partitions."""
    total = 0
    for source in progress["sources"] if progress else []:
        lows, highs = source[low] or {}, source[high] or {}
        for topic, partitions in highs.items():
            for partition, offset in partitions.items():
                total += max(offset - lows.get(topic, {}).get(partition, 0), 0)
    return total


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


def _first_lines(text: str, count: int = 6) -> str:
    return "\n".join(line for line in text.splitlines()[:count] if line.strip())
