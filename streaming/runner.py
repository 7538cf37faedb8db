"""The runner: jobs -> streaming queries. The only writeStream of the project."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from config.errors import LakehouseError
from config.settings import Settings
from config.signals import stop_on_signal
from config.waiting import answers
from lake.batch import Batch
from lake.generations import TableGenerations, has_replays, is_served, serving
from lake.locks import single_writer
from lake.tables import create_missing
from streaming.checkpoint import Checkpoint, archived_up_to, describe_lost, last_checkpoint, open_checkpoint
from streaming.dropped_rows import dropped_in_batch, dropped_rows, refuse_dropped_rows
from streaming.failures import Failures, OnFailure
from streaming.job import Job, in_stages
from streaming.job import jobs as all_jobs
from streaming.landing.archive import fill_gap
from streaming.progress import OnProgress, Progress, RunningQuery
from streaming.query_errors import explain_failure, kafka_is_away
from streaming.sources import Sources
from streaming.tries import count_failure, failing_too_often, forget_failures
from streaming.windows.late import refuse_unknown
from streaming.windows.salting import as_configured

STOP_SECONDS = 60
LIVE_SECONDS, CATCHING_UP_SECONDS = 0.5, 0.1
RECORDS_WORTH_COMPILING = 20_000


class Runner:
    """Runs jobs in one Spark session until they have caught up, or until a stop is requested."""

    def __init__(
        self,
        settings: Settings,
        spark: SparkSession,
        target: TableGenerations | None = None,
        *,
        allow_code_change: bool = False,
        retry: bool = False,
    ) -> None:
        """Run jobs on a session; target: the served generations by default, or those that a replay builds.

        retry: try a batch again that has failed too often.
        """
        self.settings = settings
        self.spark = spark
        self.target = target or serving(settings)
        self.superseded = False
        self._allow_code_change, self._retry = allow_code_change, retry
        self._stopping = threading.Event()
        self._failures = Failures(None)
        self._counted: dict[str, bool] = {}
        """By job whose batch has failed: whether that counts as a try of the batch."""

    def run(
        self,
        jobs: list[Job],
        *,
        until_caught_up: bool,
        on_progress: OnProgress | None = None,
        on_failure: OnFailure | None = None,
    ) -> list[Progress]:
        """Run the jobs, report their progress, and stop them cleanly; return the last progress of each.

        The error of one job stops that job alone. It is reported when it occurs, and raised when the run ends.
        """
        refuse_unknown(self.settings.streaming.late, [name for name, job in all_jobs().items() if job.handles_late])
        jobs = as_configured(jobs, self.settings)
        # To catch up, a job starts when the jobs that write its input tables have ended. Live, all jobs run at once.
        stages = in_stages(jobs) if until_caught_up else [jobs]
        running: list[RunningQuery] = []
        self._failures = Failures(on_failure)
        with single_writer(self.settings, [self.target.lock(job) for job in jobs]), stop_on_signal(self._stopping):
            try:
                for stage in stages:
                    if not self._stopping.is_set():
                        started = (
                            self._started(job, until_caught_up=until_caught_up, retry=self._retry) for job in stage
                        )
                        running += filter(None, started)
                        self._poll(running, until_caught_up, on_progress)
            finally:
                self._stop(running)
        self._failures.raise_any()
        return [query.progress() for query in running]

    def stop(self) -> None:
        """Ask a run in another thread to stop; it ends after the current batch."""
        self._stopping.set()

    def _started(self, job: Job, *, until_caught_up: bool, retry: bool) -> RunningQuery | None:
        """Start a job; return None if it refuses to start, or if it reads what a failed job of this run writes."""
        if until_caught_up and self._failures.add_if_downstream(job):
            return None
        try:
            query = self._start(job, until_caught_up=until_caught_up, retry=retry)
        except LakehouseError as error:
            self._failures.add(job, error)
            return None
        return RunningQuery(job, query, self.settings, self.target)

    def _start(self, job: Job, *, until_caught_up: bool, retry: bool) -> StreamingQuery:
        refuse_dropped_rows(job, self.settings, self.target)
        generation = self.target.of_job(job)
        checkpoint = open_checkpoint(
            job,
            self.settings,
            generation,
            reads_log=self.target.source == "kafka",
            allow_code_change=self._allow_code_change,
        )
        if retry:
            forget_failures(checkpoint)
        if error := self._too_often(job, checkpoint):
            raise error
        for name in (*job.reads, *job.writes):
            create_missing([name], self.settings, self.target.of_table(name))
        sources = Sources(self.settings, self.spark, self.target, live=not until_caught_up)
        writer = (
            job.apply(sources.streams(job, checkpoint.starting_offsets, checkpoint.landed))
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
            if self._stopping.is_set() or job in self._failures:
                # This batch began after the stop was requested: the next run repeats it from its start.
                raise _Stopped
            dropped = cache(lambda: dropped_in_batch(self.spark, job.name) if job.reads else 0)
            batch = Batch(
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
                input_generations=self.target.inputs_of(generation),
            )
            try:
                job.process(batch)
            except Exception as error:
                self._counted[job.name] = count_failure(checkpoint, batch_id, error) is not None
                raise
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

    def _poll(self, running: list[RunningQuery], until_caught_up: bool, on_progress: OnProgress | None) -> None:
        """Poll the queries until all have ended or failed, or a stop was requested."""
        active = True
        while active and not self._stopping.is_set():
            active = any(each.query.isActive for each in running if each.job not in self._failures)
            for number, each in enumerate(running):
                each.update()
                if each.job in self._failures or not (error := self._error_of(each)):
                    continue
                again = None if until_caught_up else self._again(each)
                if again:
                    running[number], active = again, True
                elif each.job not in self._failures:
                    self._failures.add(each.job, error)
            if on_progress:
                on_progress([each.progress() for each in running])
            if active:
                self._stopping.wait(CATCHING_UP_SECONDS if until_caught_up else LIVE_SECONDS)

    def _error_of(self, running: RunningQuery) -> LakehouseError | None:
        """Return why a query has failed, or None."""
        error, job = running.query.exception(), running.job
        if error is None or self._stopping.is_set():
            return None
        checkpoint = last_checkpoint(job, self.settings, self.target.of_job(job))
        known = dropped_rows(job, self.settings, self.target) or self._too_often(job, checkpoint)
        lost = partial(describe_lost, job, self.settings, self.target.of_job(job))
        return known or explain_failure(job.name, error, lost)

    def _too_often(self, job: Job, checkpoint: Checkpoint) -> LakehouseError | None:
        """Return the error of a batch that has failed too often; a replay is not repeated by itself."""
        return failing_too_often(job, checkpoint, self.settings, self.target) if self.target.replay is None else None

    def _again(self, running: RunningQuery) -> RunningQuery | None:
        """Start a live job again after a failed try of its batch, whose tries are counted, or once Kafka is back."""
        if kafka_is_away(running.query.exception()):
            running.waiting_since = running.waiting_since or datetime.now(UTC)
            if not answers(self.settings, running.job.topics):
                return running
        elif not self._counted.pop(running.job.name, False):
            return None
        return self._started(running.job, until_caught_up=False, retry=False)

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
