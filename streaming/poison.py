"""Poison: the records of a micro-batch that break its job, found by halving the batch and running the job on each half.

Nothing is written to the job's tables: landing's records are parsed, validated and classified only; a job that reads
tables writes a scratch generation, which no reader sees and which is removed afterwards.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import SparkSession

from config.declarations import table_named
from config.settings import Settings
from lake import batch_log, generations
from lake.batch import Batch
from lake.generations import TableGenerations
from lake.location import table_location
from lake.tables import create_missing
from streaming.batch_inputs import BatchInputs, Ranges
from streaming.checkpoint import Checkpoint
from streaming.job import Job
from streaming.landing.job import classify_records
from streaming.query_errors import blames_a_record, first_lines

SCRATCH = 0
"""A generation that is never served: the first one is 1."""

MOST = 20
"""The search ends after this many records: a job that fails for all of them has another cause."""

Try = Callable[[Ranges], str | None]
"""Runs the job on some ranges; returns its error, or None."""


@dataclass(frozen=True)
class Poison:
    """The smallest ranges that break a job: nearly always one record."""

    ranges: Ranges
    error: str


def search(ranges: Ranges, error_of: Try) -> Iterator[Poison]:
    """Find, by halving, the smallest ranges that break a job; there may be several."""
    error = error_of(ranges)
    if error is not None:
        yield from _smaller(ranges, error, error_of)


def _smaller(ranges: Ranges, error: str, error_of: Try) -> Iterator[Poison]:
    halves = _halves(ranges)
    broken = [(half, found) for half in halves if (found := error_of(half)) is not None]
    if not broken:  # one record, or records that break the job only together
        yield Poison(ranges, error)
    for half, found in broken:
        yield from _smaller(half, found, error_of)


def _halves(ranges: Ranges) -> list[Ranges]:
    """Cut ranges into two parts of about equally many offsets; a single offset has no halves."""
    total = sum(end - first for first, end in ranges.values())
    if total <= 1:
        return []
    left: Ranges = {}
    right: Ranges = {}
    room = total // 2
    for partition, (first, end) in ranges.items():
        middle = min(end, first + room)
        room -= middle - first
        if first < middle:
            left[partition] = (first, middle)
        if middle < end:
            right[partition] = (middle, end)
    return [left, right]


def find(
    job: Job, checkpoint: Checkpoint, batch: int, settings: Settings, target: TableGenerations, spark: SparkSession
) -> Iterator[Poison]:
    """Find the records of a batch that break its job."""
    inputs = BatchInputs(job, checkpoint, batch, settings, target, spark)

    def error_of(ranges: Ranges) -> str | None:
        try:
            _run(job, inputs, ranges, settings, target)
        except Exception as error:
            if not blames_a_record(error):
                raise
            return first_lines(f"{type(error).__name__}: {error}", 2)
        return None

    with _scratch(job, settings):
        yield from search(inputs.ranges, error_of)


def _run(job: Job, inputs: BatchInputs, ranges: Ranges, settings: Settings, target: TableGenerations) -> None:
    own = target.of_job(job)
    if job.topics:
        rows = job.apply(inputs.frames(ranges))
        classify_records(Batch(rows, job.name, SCRATCH, SCRATCH, own, settings))
        return
    _empty_scratch(job, settings)
    create_missing(job.writes, settings, SCRATCH)
    read_from = {name: number for name, number in target.generation_by_table.items() if name not in job.writes}
    rows = job.apply(inputs.frames(ranges))
    job.process(Batch(rows, job.name, SCRATCH, SCRATCH, SCRATCH, settings, input_generations=read_from))


@contextmanager
def _scratch(job: Job, settings: Settings) -> Iterator[None]:
    _empty_scratch(job, settings)
    try:
        yield
    finally:
        _empty_scratch(job, settings, leave=False)


def _empty_scratch(job: Job, settings: Settings, *, leave: bool = True) -> None:
    """Remove the scratch tables of a job; the mark keeps new ones out of every list of generations."""
    for name in job.writes:
        if table_named(name).has_generations:
            location = table_location(settings, name, SCRATCH)
            location.remove()
            if leave:
                (location / generations.DROPPING).write("")
    batch_log.folder(settings, job.name, SCRATCH).remove()
