"""The stream commands: what is refused before Spark starts."""

import pytest
from typer.testing import CliRunner

import config.spark
from config.errors import LakehouseError
from config.settings import Settings
from expectations.quarantine.commands import app as quarantine
from lake.locks import single_writer
from streaming.commands import app


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail a command that starts Spark."""
    for name in ("config.spark.session", "streaming.commands.session"):
        monkeypatch.setattr(name, lambda *_, **__: pytest.fail("Spark was started"))
    assert config.spark.session is not None


@pytest.mark.parametrize("arguments", [["run"], ["run", "landing"], ["run", "landing", "--close"]])
def test_a_second_run_is_refused_before_spark_starts(fresh_home: Settings, arguments: list[str]) -> None:
    with single_writer(fresh_home, ["landing"]):
        refused = CliRunner().invoke(app, ["stream", *arguments]).exception
    assert isinstance(refused, LakehouseError)
    assert "'landing' is already being run by process" in refused.problem


def test_a_redrive_during_landing_is_refused_before_spark_starts(
    fresh_home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("expectations.quarantine.commands._rows", lambda *_: [{"topic": "clicks"}])
    with single_writer(fresh_home, ["landing"]):
        refused = CliRunner().invoke(quarantine, ["quarantine", "redrive"]).exception
    assert isinstance(refused, LakehouseError)
    assert "'landing' is already being run by process" in refused.problem
