"""The runner: when it stops by itself, what it counts, and when it starts a job again."""

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

from config.errors import LakehouseError
from config.settings import Settings
from lake import generations
from lake.location import Location
from streaming import runner, starting
from streaming.checkpoint import Checkpoint
from streaming.job import job_named
from streaming.processing import Stopped
from streaming.runner import Runner


def test_a_runner_stops_before_the_next_batch_once_another_generation_is_served(fresh_home: Settings) -> None:
    written: list[int] = []
    job = replace(job_named("sessions"), reads=(), process=lambda batch: written.append(batch.id))
    no_session: Any = None
    stops = Runner(fresh_home, no_session)
    checkpoint = Checkpoint(1, Location(str(fresh_home.home)))
    (checkpoint.location / "offsets" / "0").write("v1\n{}")
    process = stops._processing.of(job, checkpoint)
    no_rows: Any = None
    process(no_rows, 0)
    assert (written, stops.superseded) == ([0], False)
    generations.switch(fresh_home, {job.writes[0]: 2}, "promote")
    with pytest.raises(Stopped):
        process(no_rows, 1)
    assert (written, stops.superseded) == ([0], True)
    assert stops._stopping.is_set()


@dataclass
class Rows:
    """A micro-batch whose session has only a configuration."""

    conf: dict[str, object]

    @property
    def sparkSession(self) -> Any:
        return SimpleNamespace(conf=SimpleNamespace(set=self.conf.__setitem__))


@pytest.fixture
def landing(fresh_home: Settings) -> tuple[Runner, Checkpoint]:
    """A runner without a session, and a checkpoint whose batch 0 has read 30,000 records of one partition."""
    no_session: Any = None
    checkpoint = Checkpoint(1, Location(str(fresh_home.home)))
    (checkpoint.location / "sources" / "0" / "0").write('v1\n{"clicks":{"0":0}}')
    (checkpoint.location / "offsets" / "0").write('v1\n{}\n{"clicks":{"0":30000}}')
    (checkpoint.location / "offsets" / "1").write('v1\n{}\n{"clicks":{"0":30010}}')
    return Runner(fresh_home, no_session), checkpoint


def test_records_of_the_log_are_counted_and_a_large_batch_is_compiled(landing: tuple[Runner, Checkpoint]) -> None:
    runs, checkpoint = landing
    conf: dict[str, object] = {}
    rows: Any = Rows(conf)
    compiled = "spark.sql.codegen.wholeStage"
    assert runs._processing.records(job_named("landing"), checkpoint, rows, 0) == 30_000
    assert conf.pop(compiled)
    assert runs._processing.records(job_named("landing"), checkpoint, rows, 1) == 10
    assert conf.pop(compiled) is False
    conf.clear()
    assert runs._processing.records(job_named("sessions"), checkpoint, rows, 0) == 0
    assert conf == {}


def test_a_batch_that_failed_too_often_refuses_its_job_but_not_a_replay(
    landing: tuple[Runner, Checkpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, checkpoint = landing
    refused = LakehouseError("failed 3 times")
    monkeypatch.setattr(starting, "failing_too_often", lambda *_: refused)
    assert runs._starter.too_often(job_named("landing"), checkpoint) is refused
    replaying = Runner(runs.settings, runs.spark, replace(runs.target, replay=2))
    assert replaying._starter.too_often(job_named("landing"), checkpoint) is None


def test_a_job_is_started_again_once_for_a_counted_failure(
    landing: tuple[Runner, Checkpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, _ = landing
    started: list[bool] = []
    monkeypatch.setattr(runs, "_started", lambda _, **how: started.append(how["retry"]))
    failed: Any = SimpleNamespace(
        job=job_named("landing"), query=SimpleNamespace(exception=lambda: None), waiting_since=None
    )
    runs._again(failed)
    assert started == []
    runs._processing.counted["landing"] = True
    runs._again(failed)
    runs._again(failed)
    assert started == [False]


def test_a_job_that_kafka_stopped_waits_until_kafka_answers(
    landing: tuple[Runner, Checkpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, _ = landing
    monkeypatch.setattr(runner, "kafka_is_away", lambda _: True)
    query: Any = SimpleNamespace(lastProgress=None)
    monkeypatch.setattr(runs._starter, "start", lambda *_, **how: query)
    failed: Any = SimpleNamespace(
        job=job_named("landing"), query=SimpleNamespace(exception=lambda: None), waiting_since=None
    )
    monkeypatch.setattr(runner, "answers", lambda *_: False)
    assert runs._again(failed) is failed
    since = failed.waiting_since
    assert since is not None
    assert (runs._again(failed), failed.waiting_since) == (failed, since)
    monkeypatch.setattr(runner, "answers", lambda *_: True)
    again = runs._again(failed)
    assert again is not None
    assert again.query is query

    # Kafka answered, and was away again when the job started: it goes on waiting, and does not give up.
    def away(*_: object, **__: object) -> None:
        monkeypatch.setattr(runner, "answers", lambda *_: False)
        raise LakehouseError("Kafka does not answer")

    monkeypatch.setattr(runs._starter, "start", away)
    assert runs._again(failed) is failed
    assert failed.job not in runs._failures
    monkeypatch.setattr(runner, "answers", lambda *_: True)
    monkeypatch.setattr(runs._starter, "start", refuse)
    assert runs._again(failed) is None
    assert failed.job in runs._failures


def refuse(*_: object, **__: object) -> None:
    raise LakehouseError("the checkpoint is damaged")
