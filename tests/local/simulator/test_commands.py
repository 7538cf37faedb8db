"""The command: its options and what it shows."""

import re
from dataclasses import fields
from pathlib import Path

import pytest
from typer.testing import CliRunner

from config.errors import LakehouseError
from local.simulator.commands import app, summary
from local.simulator.plan import Plan
from local.simulator.truth import Truth


def test_every_option_of_a_plan_can_be_given_on_the_command_line() -> None:
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200", "TERM": "dumb"}).output
    offered = set(re.findall(r"--([a-z-]+)", shown))
    assert {field.name.replace("_", "-") for field in fields(Plan)} <= offered
    assert "Example: lakehouse simulate" in shown


def test_a_mistake_is_named() -> None:
    result = CliRunner().invoke(app, ["--late", "2"])
    assert "--late is 2" in str(result.exception)


def test_what_is_live_begins_now() -> None:
    result = CliRunner().invoke(app, ["--live", "10", "--start", "2026-02-01"])
    assert "--live and --start" in str(result.exception)


def test_a_period_ahead_of_the_clock_is_refused() -> None:
    result = CliRunner().invoke(app, ["--start", "2199-01-01"])
    assert "ahead of the clock" in str(result.exception)


def test_a_broker_that_never_ran_is_named_with_the_command_that_starts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path))
    result = CliRunner().invoke(app, ["--events", "10"])
    assert isinstance(result.exception, LakehouseError)
    assert "lakehouse broker start" in result.exception.hint


def test_the_summary_adds_up() -> None:
    truth = Truth(
        records={"clicks": 1_210, "users": 5},
        events={"clicks": {"page_view": 1_200}, "users": {"user_changed": 5}},
        late={"clicks": ["a", "b"]},
        duplicates={"clicks": ["c"] * 7},
        malformed={"clicks": {"d": "empty"}},
    )
    table = summary(truth)
    cells = [list(column.cells) for column in table.columns]
    assert [column[0] for column in cells] == ["clicks", "1,210", "1,200", "2", "7", "1", "0"]
    assert [column[-1] for column in cells] == ["all", "1,215", "1,205", "2", "7", "1", "0"]
