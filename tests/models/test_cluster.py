"""dbt by a Thrift server, and the mart that is not built whole each time."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from config.declarations import tables
from config.settings import ROOT
from lake import generations
from lake.location import table_location
from operations.dbt.run import environment


@pytest.fixture
def thrift(built: Any) -> Any:
    """A home whose Thrift server runs."""
    built.run("lakehouse thrift start")
    return built


def build(built: Any, model: str) -> None:
    done = subprocess.run(
        ["dbt", "run", "--target", "cluster", "--select", model],
        cwd=ROOT,
        env=built.environ | environment(built.settings),
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]


def funnel(built: Any) -> tuple[deltalake.DeltaTable, dict[tuple[Any, str], dict[str, Any]]]:
    table = deltalake.DeltaTable(built.settings.warehouse / "marts.db" / "conversion_funnel")
    rows: pa.Table = table.to_pyarrow_table()
    return table, {(row["day"], row["tier"]): row for row in rows.to_pylist()}


def test_days_that_are_complete_are_left_until_history_is_written_anew(thrift: Any) -> None:
    table, before = funnel(thrift)
    complete = {key for key, row in before.items() if row["complete"]}
    assert 0 < len(complete) < len(before)
    table.update(updates={"viewers": "-1"})

    build(thrift, "conversion_funnel")
    table, after = funnel(thrift)
    assert table.history(1)[0]["operation"] == "MERGE"
    assert {key for key, row in after.items() if row["viewers"] == -1} == complete
    assert {key: row for key, row in after.items() if key not in complete} == {
        key: row for key, row in before.items() if key not in complete
    }

    sessions = tables()["gold.sessions"]
    first, second = (str(table_location(thrift.settings, sessions.name, number)) for number in (1, 2))
    shutil.copytree(first, second)
    generations.switch(thrift.settings, {sessions.name: 2}, "promote")
    thrift.run("lakehouse catalog refresh")
    build(thrift, "conversion_funnel")
    _, whole = funnel(thrift)
    assert {row.pop("built_from") for row in whole.values()} == {"kappa 1"}
    assert whole == {key: {name: row[name] for name in row if name != "built_from"} for key, row in before.items()}


def test_a_session_elsewhere_keeps_its_settings(spark: Any, built: Any) -> None:
    assert "Completed successfully" in built.said
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
    assert Path(built.settings.home / "logs" / "dbt.log").exists()
