"""The runner: when it stops by itself."""

from dataclasses import replace
from typing import Any

import pytest

from config.settings import Settings
from lake import generations
from lake.location import Location
from streaming import runner
from streaming.checkpoint import Checkpoint
from streaming.job import job_named
from streaming.runner import Runner


def test_a_runner_stops_before_the_next_batch_once_another_generation_is_served(fresh_home: Settings) -> None:
    written: list[int] = []
    job = replace(job_named("sessions"), reads=(), process=lambda batch: written.append(batch.id))
    no_session: Any = None
    stops = Runner(fresh_home, no_session)
    checkpoint = Checkpoint(1, Location(str(fresh_home.home)))
    (checkpoint.location / "offsets" / "0").write("v1\n{}")
    process = stops._processing(job, checkpoint)
    no_rows: Any = None
    process(no_rows, 0)
    assert (written, stops.superseded) == ([0], False)
    generations.switch(fresh_home, {job.writes[0]: 2}, "promote")
    with pytest.raises(runner._Stopped):
        process(no_rows, 1)
    assert (written, stops.superseded) == ([0], True)
    assert stops._stopping.is_set()
