"""The runner: starts the queries of some jobs, polls them, starts failed ones again, and stops them."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from config.errors import LakehouseError
from config.parallel import in_parallel
from config.settings import Settings
from config.signals import stop_on_signal
from config.waiting import answers
from lake.generations import TableGenerations, serving
from lake.locks import single_writer
from streaming.checkpoint import describe_lost, last_checkpoint
from streaming.dropped_rows import dropped_rows
from streaming.failures import Failures, OnFailure
from streaming.history import empty_tables
from streaming.job import Job, in_stages
from streaming.job import jobs as all_jobs
from streaming.processing import Processing
from streaming.progress import OnProgress, Progress, RunningQuery, commits_behind, computing_history
from streaming.query_errors import explain_failure, kafka_is_away
from streaming.starting import Options, Starter
from streaming.windows.late import refuse_unknown
from streaming.windows.salting import as_configured

T = TypeVar("T")
STOP_SECONDS = 60
LIVE_SECONDS, CATCHING_UP_SECONDS = 0.5, 0.1


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
        from_first: bool = False,
    ) -> None:
        """Run jobs on a session; target: the served generations by default, or those that a replay builds.

        retry: try a batch again that has failed too often.
        from_first: stream all of history from the first commit of each table, instead of computing it.
        """
        self.settings = settings
        self.spark = spark
        self.target = target or serving(settings)
        self._options = Options(allow_code_change, retry, from_first)
        self._stopping = threading.Event()
        self._prepare([], None)

    @property
    def superseded(self) -> bool:
        """Return whether the run has stopped because another generation is served."""
        return self._processing.superseded

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
        running: list[RunningQuery] = []
        with single_writer(self.settings, [self.target.lock(job) for job in jobs]), stop_on_signal(self._stopping):
            self._prepare(jobs, on_failure)
            try:
                # History is computed, and to catch up a job starts, when the jobs that write its input tables have
                # ended. Live, all jobs run at once.
                for stage in in_stages(jobs):
                    done = self._catch_up_on_history(stage, until_caught_up, on_progress)
                    if until_caught_up:
                        running += done
                        self._land_archive(stage, on_progress)
                        behind = [job for job in stage if not self._has_caught_up(job, done) and self._streams(job)]
                        self._run_stage(behind, running, until_caught_up, on_progress)
                if not until_caught_up:
                    self._run_stage(jobs, running, until_caught_up, on_progress)
            finally:
                self._stop(running)
        self._failures.raise_any()
        return [query.progress() for query in running]

    def stop(self) -> None:
        """Ask a run in another thread to stop; it ends after the current batch."""
        self._stopping.set()

    def _prepare(self, jobs: list[Job], on_failure: OnFailure | None) -> None:
        self._failures = Failures(on_failure)
        self._processing = Processing(self.settings, self.spark, self.target, self._stopping, self._failures)
        # What this run lands is read as a stream. A replay lands history, in no order that a stream could rely on.
        empty = empty_tables(jobs, self.settings, self.target) if self.target.replay is None else {}
        self._starter = Starter(self.settings, self.spark, self.target, self._options, self._processing, empty)

    def _run_stage(
        self, stage: list[Job], running: list[RunningQuery], until_caught_up: bool, on_progress: OnProgress | None
    ) -> None:
        if not self._stopping.is_set():
            started = (self._started(job, until_caught_up=until_caught_up, retry=self._options.retry) for job in stage)
            running += filter(None, started)
            self._poll(running, until_caught_up, on_progress)

    def _started(self, job: Job, *, until_caught_up: bool, retry: bool) -> RunningQuery | None:
        """Start a job; return None if it refuses to start, or if it reads what a failed job of this run writes."""
        if job in self._failures or (until_caught_up and self._failures.add_if_downstream(job)):
            return None
        starts = partial(self._starter.start, until_caught_up=until_caught_up, retry=retry)
        query = self._unless_it_fails(starts, job)
        return RunningQuery(job, query, self.settings, self.target) if query else None

    def _catch_up_on_history(
        self, stage: list[Job], until_caught_up: bool, on_progress: OnProgress | None
    ) -> list[RunningQuery]:
        """Compute the history of the jobs that start on tables with rows; return their queries, which have ended."""
        starting = [
            job for job in stage if self._starter.has_history(job) and not self._failures.add_if_downstream(job)
        ]
        if not starting or self._stopping.is_set():
            return []
        if on_progress:
            on_progress([computing_history(job) for job in starting])
        threads = self.settings.streaming.parallel_writes
        queries = [each for each in in_parallel(self._begun, starting, threads) if each]
        try:
            self._poll(queries, until_caught_up, on_progress)
        finally:
            if self._stopping.is_set():
                self._stop(queries)
        done = [each for each in queries if each.job not in self._failures and not self._stopping.is_set()]
        in_parallel(partial(self._unless_it_fails, self._starter.complete_history), [q.job for q in done], threads)
        return [each for each in done if each.job not in self._failures]

    def _land_archive(self, stage: list[Job], on_progress: OnProgress | None) -> None:
        """Land the archive where a replay reads it in place of the log."""
        for job in stage if self.target.source == "bronze" else []:
            if job.topics:
                lands = partial(self._starter.land_archive, on_batch=partial(self._go_on, job, on_progress))
                self._unless_it_fails(lands, job)

    def _go_on(self, job: Job, on_progress: OnProgress | None, batch: int, landed: int, total: int) -> bool:
        if on_progress:
            on_progress([Progress(job.name, "running", batch, landed, total - landed, 0.0, 0.0)])
        return not self._stopping.is_set()

    def _begun(self, job: Job) -> RunningQuery | None:
        """Compute the history of a job; return the query that reads the tail, or None if it failed."""
        query = self._unless_it_fails(self._starter.begin_history, job)
        return RunningQuery(job, query, self.settings, self.target) if query else None

    def _unless_it_fails(self, work: Callable[[Job], T], job: Job) -> T | None:
        """Do work for a job; if it fails, record the error and return None: the other jobs go on."""
        try:
            return work(job)
        except LakehouseError as error:
            self._failures.add(job, error)
        except PySparkException as error:
            self._failures.add(job, explain_failure(job.name, error))
        return None

    def _streams(self, job: Job) -> bool:
        return not job.topics or self.target.source == "kafka"

    def _has_caught_up(self, job: Job, done: list[RunningQuery]) -> bool:
        """Return whether a job whose history was just computed has nothing left to read."""
        if job not in [each.job for each in done]:
            return False
        checkpoint = last_checkpoint(job, self.settings, self.target.of_job(job))
        return commits_behind(job, checkpoint.table_offsets(), self.settings, self.target) == 0

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
        known = dropped_rows(job, self.settings, self.target) or self._starter.too_often(job, checkpoint)
        lost = partial(describe_lost, job, self.settings, self.target.of_job(job))
        return known or explain_failure(job.name, error, lost)

    def _again(self, running: RunningQuery) -> RunningQuery | None:
        """Start a live job again after a failed try of its batch, whose tries are counted, or once Kafka is back."""
        if kafka_is_away(running.query.exception()):
            running.waiting_since = running.waiting_since or datetime.now(UTC)
            if not answers(self.settings, running.job.topics):
                return running
            try:
                query = self._starter.start(running.job, until_caught_up=False, retry=False)
            except LakehouseError as error:
                if not answers(self.settings, running.job.topics):
                    return running  # Kafka is away again
                self._failures.add(running.job, error)
                return None
            return RunningQuery(running.job, query, self.settings, self.target)
        if not self._processing.counted.pop(running.job.name, False):
            return None
        if self._starter.has_history(running.job):
            return self._begun(running.job)
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
