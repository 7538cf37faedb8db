"""Progress: the last micro-batch of a running job, as Spark reports it; saved next to the job's checkpoints."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from config.settings import Settings
from config.waiting import waiting_for_kafka
from lake.generations import TableGenerations
from lake.location import Location, table_location
from streaming.checkpoint import job_folder
from streaming.job import Job


@dataclass(frozen=True)
class Progress:
    """The last micro-batch of a job; its rows are records of the log, or rows of its input tables."""

    job: str
    state: str
    batch: int
    done: int
    waiting: int
    """Records of the log that it has not read, or commits of its input tables."""

    rows_per_second: float
    batch_seconds: float
    kept_rows: int = 0
    """Rows in Spark's state, which keeps them until the watermark has passed."""

    kept_bytes: int = 0
    watermark: str | None = None


ARCHIVE = "bronze.events"
COMPUTING_HISTORY = "computing history"
OnProgress = Callable[[list[Progress]], None]
"""A callback that receives the progress of all running jobs."""


def last_progress(job: str, settings: Settings, generation: int) -> Progress | None:
    """Read the saved progress of a job; any process may have run it."""
    file = _file(job, settings, generation)
    values = file.read_json(f"It only reports what the job did last: rm '{file}'")
    return None if values is None else Progress(**values)


def computing_history(job: Job) -> Progress:
    """Return the progress of a job before its query starts."""
    return Progress(job.name, COMPUTING_HISTORY, batch=-1, done=0, waiting=0, rows_per_second=0.0, batch_seconds=0.0)


class RunningQuery:
    """A streaming query and the progress it has reported."""

    def __init__(self, job: Job, query: StreamingQuery, settings: Settings, target: TableGenerations) -> None:
        """Track a job's query from now on."""
        self.job, self.query = job, query
        self.waiting_since: datetime | None = None
        """Since when it waits for Kafka to answer before it goes on."""

        self._settings, self._target = settings, target
        self._last_report: str | None = None
        self._waiting = 0
        self._of_log = bool(job.topics) and target.source == "kafka"
        self._counted: int | None = None
        self._done = 0
        self._last: dict[str, Any] = {}

    def update(self) -> None:
        """Count the micro-batches that the query has reported since the last call."""
        last = self.query.lastProgress
        if last is None or last.timestamp == self._last_report:
            return
        self._last_report = last.timestamp
        new = self._uncounted(last)
        for progress in new:
            self._counted = progress["batchId"]
            self._done += self._rows(progress)
            self._last = progress
        if new:
            self._waiting = self._still_waiting()
            file = _file(self.job.name, self._settings, self._target.of_job(self.job))
            file.write(json.dumps(asdict(self.progress())))

    def _uncounted(self, last: StreamingQueryProgress) -> list[dict[str, Any]]:
        """Return the reports of micro-batches that are not counted yet, in order.

        An idle query reports the number of the next batch. Spark keeps up to 100 reports; they are read only at
        first, or when a whole batch ran between two calls.
        """
        skipped = self._counted is None or last.batchId > self._counted + 1
        reports = [json.loads(each.json) for each in (self.query.recentProgress if skipped else [last])]
        counted = -1 if self._counted is None else self._counted
        return [each for each in reports if "addBatch" in each["durationMs"] and each["batchId"] > counted]

    def progress(self) -> Progress:
        """Return the progress of the query's last micro-batch."""
        seconds = self._last.get("durationMs", {}).get("triggerExecution", 0) / 1000
        states = self._last.get("stateOperators", [])
        return Progress(
            job=self.job.name,
            state=self._state(),
            batch=int(self._last.get("batchId", -1)),
            done=self._done,
            waiting=self._waiting,
            rows_per_second=self._rows(self._last) / seconds if seconds else 0.0,
            batch_seconds=seconds,
            kept_rows=sum(state["numRowsTotal"] for state in states),
            kept_bytes=sum(state["memoryUsedBytes"] for state in states),
            watermark=self._last.get("eventTime", {}).get("watermark"),
        )

    def _state(self) -> str:
        if self.waiting_since:
            return waiting_for_kafka(self.waiting_since)
        return "running" if self.query.isActive else "stopped"

    def _rows(self, progress: dict[str, Any]) -> int:
        # Landing reads its rows more than once, and Spark counts each read: for the log, count offsets instead.
        if self._of_log:
            return _offsets_between(progress, "startOffset", "endOffset")
        return int(progress.get("numInputRows", 0))

    def _still_waiting(self) -> int:
        if self._of_log:
            return _offsets_between(self._last, "endOffset", "latestOffset")
        ends = [source["endOffset"] for source in self._last.get("sources", []) if source["endOffset"]]
        return commits_behind(self.job, ends, self._settings, self._target)


def commits_behind(job: Job, offsets: Iterable[Mapping[str, Any]], settings: Settings, target: TableGenerations) -> int:
    """Count the unread commits of the input table in which the job is furthest behind, from Spark's offsets."""
    read: dict[str, int] = {}
    for end in offsets:
        # An index of -1 points before the first file of a version: that version is unread.
        version = end["reservoirVersion"] - (1 if end["index"] < 0 else 0)
        read[end["reservoirId"]] = min(version, read.get(end["reservoirId"], version))
    behind = 0
    for name in job.reads or (ARCHIVE,):
        location = table_location(settings, name, target.of_table(name))
        if location.is_table():
            table = location.table()
            # Version 0 only creates the table.
            behind = max(behind, table.version() - read.get(str(table.metadata().id), 0))
    return behind


def _file(job: str, settings: Settings, generation: int) -> Location:
    return job_folder(job, settings, generation) / "progress.json"


def _offsets_between(progress: dict[str, Any], low: str, high: str) -> int:
    """Count the offsets between two ends of a progress report, over all topics and partitions."""
    total = 0
    for source in progress["sources"] if progress else []:
        lows, highs = source[low] or {}, source[high] or {}
        for topic, partitions in highs.items():
            for partition, offset in partitions.items():
                total += max(offset - lows.get(topic, {}).get(partition, 0), 0)
    return total
