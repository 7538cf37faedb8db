"""The replay commands: what is refused before Spark starts."""

import pytest
from typer.testing import CliRunner

from config.errors import LakehouseError
from config.settings import Settings
from lake.locks import single_writer
from replay import manifest
from replay.commands import app
from streaming.job import jobs


@pytest.mark.parametrize("arguments", [["run", "--resume", "2"], ["promote", "2"]])
def test_a_second_replay_is_refused_before_spark_starts(
    fresh_home: Settings, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setattr("config.spark.session", lambda *_, **__: pytest.fail("Spark was started"))
    manifest.save(fresh_home, manifest.new(fresh_home, list(jobs().values()), "kafka", "earliest"))
    with single_writer(fresh_home, ["replay"]):
        refused = CliRunner().invoke(app, ["replay", *arguments]).exception
    assert isinstance(refused, LakehouseError)
    assert "'replay' is already being run by process" in refused.problem
