"""Starting: a job -> its streaming query. History is computed first where its input tables have rows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from config.errors import LakehouseError
from config.settings import Settings
from lake.generations import TableGenerations
from lake.tables import create_missing
from streaming import landed_code, start
from streaming.checkpoint import Checkpoint, job_folder, last_checkpoint, open_checkpoint
from streaming.dropped_rows import refuse_dropped_rows
from streaming.history import History
from streaming.job import Job
from streaming.landing import from_archive
from streaming.processing import Process, Processing, write_nothing
from streaming.sources import Sources
from streaming.start import Start
from streaming.tries import failing_too_often, forget_failures


@dataclass(frozen=True)
class Options:
    """What a run was asked for."""

    allow_code_change: bool = False
    retry: bool = False
    """Try a batch again that has failed too often."""

    from_first: bool = False
    """Stream all of history from the first commit of each table, instead of computing it."""


class Starter:
    """Starts the queries of one run."""

    def __init__(
        self,
        settings: Settings,
        spark: SparkSession,
        target: TableGenerations,
        options: Options,
        processing: Processing,
        empty: Mapping[str, int],
    ) -> None:
        """Start queries.

        empty: the input tables that had no row when the run began, and the version at which their streams start.
        """
        self._settings, self._spark, self._target = settings, spark, target
        self._options, self._processing = options, processing
        self._history = History(settings, spark, target)
        self._empty = dict(empty)

    def start(self, job: Job, *, until_caught_up: bool, retry: bool) -> StreamingQuery:
        """Start a job where its checkpoint is, or at the beginning of its inputs."""
        checkpoint = self._open(job, retry=retry)
        versions = self._versions(job, checkpoint)
        sources = Sources(
            self._settings,
            self._spark,
            self._target,
            live=not until_caught_up,
            from_first=self._options.from_first,
        )
        inputs = sources.streams(job, checkpoint.starting_offsets, checkpoint.landed, versions)
        trigger = None if until_caught_up else self._trigger(job)
        return _query(job, checkpoint, inputs, self._processing.of(job, checkpoint), trigger)

    def has_history(self, job: Job) -> bool:
        """Return whether a job has yet to start, on tables that have rows, or was interrupted while it did."""
        if not job.reads or self._options.from_first:
            return False
        checkpoint = last_checkpoint(job, self._settings, self._target.of_job(job))
        begun = start.load(checkpoint.job_folder, checkpoint.epoch)
        if begun is None:
            return not checkpoint.has_started() and any(name not in self._empty for name in job.reads)
        return begun.interrupted

    def begin_history(self, job: Job) -> StreamingQuery:
        """Write the rows of a job that are final, and start the query that reads the tail of its inputs."""
        checkpoint = self._open(job, retry=self._options.retry)
        begun = start.load(checkpoint.job_folder, checkpoint.epoch)
        if begun is None or begun.history == "computing":
            start.save(checkpoint.job_folder, checkpoint.epoch, Start(history="computing"))
            begun = self._history.final_rows(job, checkpoint)
            start.save(checkpoint.job_folder, checkpoint.epoch, begun)
        process = self._processing.of(job, checkpoint, begun.final_before)
        if self._history.writes_all(job):
            process = write_nothing
        inputs = Sources(self._settings, self._spark, self._target).tails(job, begun.tail_from)
        return _query(job, checkpoint, inputs, process, None)

    def complete_history(self, job: Job) -> None:
        """Write what the query has not, and record that the job continues as a stream."""
        checkpoint = last_checkpoint(job, self._settings, self._target.of_job(job))
        if self._history.writes_all(job) and checkpoint.has_completed():
            self._history.all_rows(job, checkpoint)
        begun = start.load(checkpoint.job_folder, checkpoint.epoch) or Start()
        start.save(checkpoint.job_folder, checkpoint.epoch, replace(begun, history="complete"))
        for name in job.writes:
            self._empty.pop(name, None)  # its rows are in no order that a stream could rely on

    def land_archive(self, job: Job, on_batch: Callable[[int, int, int], bool]) -> None:
        """Land the archive into the generation that a replay builds."""
        generation = self._target.of_job(job)
        folder = job_folder(job.name, self._settings, generation)
        landed_code.record(job, self._settings, folder)
        from_archive.land(self._spark, self._settings, job, generation, folder, on_batch)

    def too_often(self, job: Job, checkpoint: Checkpoint) -> LakehouseError | None:
        """Return the error of a batch that has failed too often; a replay is not repeated by itself."""
        if self._target.replay is not None:
            return None
        return failing_too_often(job, checkpoint, self._settings, self._target)

    def _open(self, job: Job, *, retry: bool) -> Checkpoint:
        """Open the checkpoint of a job that may run, and create the tables that it needs."""
        refuse_dropped_rows(job, self._settings, self._target)
        checkpoint = open_checkpoint(
            job,
            self._settings,
            self._target.of_job(job),
            reads_log=self._target.source == "kafka",
            allow_code_change=self._options.allow_code_change,
        )
        if retry:
            forget_failures(checkpoint)
        if error := self.too_often(job, checkpoint):
            raise error
        for name in (*job.reads, *job.writes):
            create_missing([name], self._settings, self._target.of_table(name))
        return checkpoint

    def _versions(self, job: Job, checkpoint: Checkpoint) -> Mapping[str, int]:
        """Return the version at which the stream of each table starts; none where the checkpoint knows."""
        if not job.reads or checkpoint.has_completed():
            return {}
        begun = start.load(checkpoint.job_folder, checkpoint.epoch)
        if begun is None:
            begun = Start({name: self._empty.get(name, 0) for name in job.reads})
            start.save(checkpoint.job_folder, checkpoint.epoch, begun)
        return begun.versions

    def _trigger(self, job: Job) -> str:
        configured = self._settings.streaming
        return f"{configured.trigger_seconds if job.topics else configured.table_trigger_seconds} seconds"


def _query(
    job: Job, checkpoint: Checkpoint, inputs: Mapping[str, DataFrame], process: Process, trigger: str | None
) -> StreamingQuery:
    """Start the query of a job; without a trigger it ends when it has read what there is. The only writeStream."""
    writer = (
        job.apply(inputs)
        .writeStream.queryName(job.name)
        .outputMode(job.query.output_mode)
        .option("checkpointLocation", str(checkpoint.location))
        .foreachBatch(process)
    )
    return (writer.trigger(processingTime=trigger) if trigger else writer.trigger(availableNow=True)).start()
