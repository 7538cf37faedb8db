"""The pages on dbt and on reading are followed as they stand, in a home that dbt has built: the long form."""

import json
import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyhive import hive

from config.errors import LakehouseError
from config.settings import ROOT, Settings
from local.thrift import Thrift
from operations.notebook import open_notebook, write_first

Block = tuple[str, str]


def blocks(page: str) -> list[Block]:
    """Return the commands that a page shows and the output that it promises, in order."""
    text = (ROOT / "docs" / page).read_text()
    return re.findall(r"^```(sh|python|text)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.guides
def test_a_dbt_users_first_ten_minutes(built: Any) -> None:
    (_, build), *rest = blocks("dbt.md")
    assert build == "lakehouse dbt build\n"  # which made this home
    said = built.said
    for kind, block in rest:
        if kind == "sh":
            said = re.sub(r"\x1b\[[\d;]*m", "", built.run(block))
        else:
            assert [line for line in block.splitlines() if line not in said] == [], said
    assert (built.settings.home / "reports" / "dbt" / "static_index.html").exists()


def test_nothing_that_dbt_deprecates_is_used(built: Any) -> None:
    assert "deprecat" not in built.said.lower()
    assert "warn" not in built.said.lower().replace("warn=0", "")


@pytest.mark.slow
@pytest.mark.guides
def test_every_way_of_reading_gives_the_same_answer_while_dbt_runs(
    built: Any, building: "subprocess.Popen[str]"
) -> None:
    started = datetime.now(UTC)
    sessions = built.answers["kappa_sessions"].num_rows
    found = []
    for kind, block in blocks("reading.md"):
        script = block if kind == "sh" else f"{shlex.quote(sys.executable)} - <<'END'\n{block}\nEND\n"
        said = built.run(script)
        if "serving." in block or "deltalake" in block:
            found.append(int(re.findall(r"\d+", said)[-1]))
    assert found == [sessions] * 6
    said, _ = building.communicate()
    assert building.returncode == 0, said
    views = [f"serving.{name}" for name, model in built.models.items() if model["schema"] == "serving"]
    assert [name for name in views if made_at(built.settings, name) >= started] == [], "none was gone meanwhile"


@pytest.mark.slow
@pytest.mark.guides
def test_dbt_builds_on_a_thrift_server(built: Any) -> None:
    built.run("lakehouse thrift start")
    said = built.run("source <(lakehouse dbt env) && dbt run --target cluster --select +conversion_funnel")
    assert "Completed successfully" in said
    days = asked(built.settings, "select count(*) from marts.conversion_funnel")
    assert days == [(built.answers["conversion_funnel"].num_rows,)]


def asked(settings: Settings, query: str) -> list[tuple[Any, ...]]:
    """Run a query on the Thrift server, which must run."""
    host, _, port = Thrift(settings).address.rpartition(":")
    with hive.connect(host, int(port)) as connection:
        cursor = connection.cursor()
        cursor.execute(query)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def made_at(settings: Settings, view: str) -> datetime:
    """Return when a view was created, to the second."""
    (text,) = [row[1] for row in asked(settings, f"describe table extended {view}") if row[0] == "Created Time"]
    return datetime.strptime(text, "%a %b %d %H:%M:%S UTC %Y").replace(tzinfo=UTC)


@pytest.fixture
def building(built: Any) -> "subprocess.Popen[str]":
    """A run of dbt that goes on while the test does."""
    return subprocess.Popen(
        ["lakehouse", "dbt", "run", "--select", "serving", "marts"],
        cwd=ROOT,
        env=built.environ,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def test_a_notebook_begins_with_what_the_page_runs(tmp_path: Path, settings: Settings) -> None:
    notebook = json.loads(write_first(settings.at(tmp_path)).read_text())
    first = notebook["cells"][0]["source"]
    assert [block for kind, block in blocks("reading.md") if kind == "python" and block.startswith(first)]


def test_without_jupyter_the_command_that_installs_it_is_named(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(LakehouseError, match="not installed") as error:
        open_notebook(settings)
    assert "pip install notebook" in error.value.hint
