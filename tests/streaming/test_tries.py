"""Tries of a batch: counted next to the checkpoint, so that a restart does not forget them."""

import json

import pytest

from config.errors import LakehouseError
from config.settings import Settings
from lake.generations import serving
from streaming.checkpoint import Checkpoint, last_checkpoint
from streaming.job import job_named
from streaming.tries import count_failure, failing_too_often, forget_failures

JOB = job_named("landing")
BROKEN = ValueError("year 292278994 is out of range")


@pytest.fixture
def checkpoint(fresh_home: Settings) -> Checkpoint:
    """A checkpoint whose batch 1 was started and not completed."""
    found = last_checkpoint(JOB, fresh_home)
    for batch, end in ((0, 10), (1, 25)):
        ends = json.dumps({"clicks": {"0": end, "1": 4}})
        (found.location / "offsets" / str(batch)).write(f"v1\n{{}}\n{ends}")
    (found.location / "commits" / "0").write("v1\n{}")
    return found


def test_a_job_refuses_to_start_after_three_failures_of_one_batch_and_names_its_offsets(
    checkpoint: Checkpoint, fresh_home: Settings
) -> None:
    target = serving(fresh_home)
    for _ in range(3):
        assert failing_too_often(JOB, last_checkpoint(JOB, fresh_home), fresh_home, target) is None
        count_failure(checkpoint, 1, BROKEN)
    error = failing_too_often(JOB, last_checkpoint(JOB, fresh_home), fresh_home, target)
    assert error
    assert "'landing' is stopped: its batch 1 has failed 3 times" in error.problem
    assert "clicks/0 offsets 10-24." in error.problem  # partition 1 has nothing new
    assert "year 292278994 is out of range" in error.problem
    assert "lakehouse stream bisect landing" in error.hint
    forget_failures(checkpoint)
    assert failing_too_often(JOB, checkpoint, fresh_home, target) is None


def test_failures_of_different_batches_are_not_added_up(checkpoint: Checkpoint) -> None:
    for batch, tries in ((1, 1), (1, 2), (2, 1)):
        failure = count_failure(checkpoint, batch, BROKEN)
        assert failure
        assert failure.tries == tries


def test_a_batch_that_was_completed_since_does_not_count(checkpoint: Checkpoint, fresh_home: Settings) -> None:
    for _ in range(3):
        count_failure(checkpoint, 1, BROKEN)
    (checkpoint.location / "commits" / "1").write("v1\n{}")
    assert failing_too_often(JOB, checkpoint, fresh_home, serving(fresh_home)) is None


@pytest.mark.parametrize(
    "error",
    [
        OSError("java.io.IOException: No space left on device"),
        RuntimeError("org.apache.kafka.common.errors.TimeoutException: Timed out"),
        LakehouseError("The log is not the one that was landed before."),
    ],
)
def test_what_no_record_can_cause_is_not_counted(checkpoint: Checkpoint, error: Exception) -> None:
    assert count_failure(checkpoint, 1, error) is None
