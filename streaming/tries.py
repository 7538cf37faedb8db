"""Tries: how often a micro-batch of a job has failed, stored next to the job's checkpoint.

A batch with a record that the code cannot process fails the same way each time it is repeated. After
`streaming.tries` failures its job stops alone and refuses to start, until the records are set aside or the code is
fixed. Failures that no record causes (Kafka is down, the disk is full) are not counted.
"""

import json
from dataclasses import asdict, dataclass

from config.errors import LakehouseError
from config.files import reading
from config.settings import Settings
from lake.generations import TableGenerations
from lake.location import Location
from streaming.batch_inputs import describe
from streaming.checkpoint import Checkpoint
from streaming.job import Job
from streaming.query_errors import blames_a_record, first_lines


@dataclass(frozen=True)
class Failure:
    """A micro-batch that failed, how often, and with which error the last time."""

    batch: int
    tries: int
    reason: str


def count_failure(checkpoint: Checkpoint, batch: int, error: Exception) -> Failure | None:
    """Count a failed try of a batch; return None if the error says that no record was to blame."""
    if not blames_a_record(error):
        return None
    before = last_failure(checkpoint)
    tries = before.tries + 1 if before and before.batch == batch else 1
    failure = Failure(batch, tries, first_lines(f"{type(error).__name__}: {error}", 2))
    _file(checkpoint).write(json.dumps(asdict(failure)))
    return failure


def last_failure(checkpoint: Checkpoint) -> Failure | None:
    """Return the last batch that failed; it may have succeeded since."""
    file = _file(checkpoint)
    content = file.read_bytes()
    if content is None:
        return None
    job = checkpoint.location.parent.name
    with reading(file, f"lakehouse stream run {job} --retry   (counts the tries of its batch from the beginning)"):
        return Failure(**json.loads(content))


def forget_failures(checkpoint: Checkpoint) -> None:
    """Let the job try its batch again."""
    _file(checkpoint).remove()


def failing_too_often(
    job: Job, checkpoint: Checkpoint, settings: Settings, target: TableGenerations
) -> LakehouseError | None:
    """Return the error of a job whose next batch has failed too often, or None."""
    failure = last_failure(checkpoint)
    if failure is None or failure.tries < settings.streaming.tries or checkpoint.unfinished() != failure.batch:
        return None
    return LakehouseError(
        f"'{job.name}' is stopped: its batch {failure.batch} has failed {failure.tries} times.\n"
        f"The batch reads {describe(job, checkpoint, failure.batch, settings, target)}.\n{failure.reason}",
        f"Find the records that break it: lakehouse stream bisect {job.name}\n"
        f"After the cause is fixed: lakehouse stream run {job.name} --retry",
    )


def _file(checkpoint: Checkpoint) -> Location:
    return checkpoint.location.parent / f"{checkpoint.location.name}.tries.json"
