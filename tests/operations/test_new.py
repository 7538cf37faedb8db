"""New topics, jobs, joins and models: each command writes all that the change needs; a bad name writes nothing.

The files are added to a copy of the project, and the copy's own tests are run. Those that compare tables with the
oracle (tests/streaming/roles, tests/batch, tests/models) find the new tables by their files.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from config.errors import LakehouseError
from config.settings import ROOT
from operations.new.files import Files
from operations.new.job import job
from operations.new.join import join
from operations.new.model import model
from operations.new.names import interval
from operations.new.topic import topic

Done = subprocess.CompletedProcess[str]
OWN = "selftest_"
"""What the names of all that is added here begin with: the project may have any other name already."""

COMMANDS = (
    ("topic", f"{OWN}parcels", "--key", "depot_id"),
    ("job", f"{OWN}hourly", "--from", f"silver.{OWN}parcels", "--sum", "amount"),
    ("job", f"{OWN}sliding", "--from", f"silver.{OWN}parcels", "--window", "90 minutes", "--slide", "20 minutes"),
    ("job", f"{OWN}sessions", "--from", f"silver.{OWN}parcels", "--session-gap", "25 minutes"),
    ("job", f"{OWN}weekly", "--from", "silver.clicks_enriched", "--key", "product_id", "--window", "7 days"),
    ("join", f"{OWN}paid", "--left", "silver.orders", "--right", "silver.payments", "--within", "2 hours"),
    ("model", f"{OWN}hourly_per_day", "--from", f"gold.{OWN}hourly"),
    ("model", f"{OWN}orders_per_day", "--from", "silver.orders"),
    ("model", f"{OWN}parcels_per_day", "--from", f"silver.{OWN}parcels"),
)
"""Every kind of change, some of them on one before."""

SCRIPT = """
import json, sys
from pathlib import Path
from typer.testing import CliRunner
import lakehouse

app, runner = lakehouse.build(), CliRunner()

def printed(*arguments):
    done = runner.invoke(app, ["new", *arguments], env={"COLUMNS": "200"}, catch_exceptions=False)
    return done.output

def files():
    return sorted(file for file in Path().rglob("*") if file.suffix != ".pyc")

dry, done = {}, {}
for command in json.loads(sys.argv[1]):
    before = files()
    dry[command[1]] = printed(*command, "--dry-run")
    assert files() == before
    done[command[1]] = printed(*command)
print(json.dumps({"dry": dry, "printed": done}))
"""
FILES = {"topic": 4, "job": 4, "join": 4, "model": 2}
ALONE = ("topic", f"{OWN}parcels"), ("job", f"{OWN}weekly"), ("join", f"{OWN}paid"), ("model", f"{OWN}orders_per_day")
"""A change of each kind that needs none of the others."""

DECLARATIONS = (
    *(f"tests/config/test_{name}.py" for name in ("declarations", "rules", "table_rules")),
    *(f"tests/models/test_{name}.py" for name in ("project", "sync")),
    *(f"tests/streaming/test_{name}.py" for name in ("code_version", "job", "sources")),
)
"""Tests of whatever the declarations, jobs and models of a project are."""


def copied(folder: Path) -> Path:
    """Copy this project, without what git ignores and without the template's own folder."""
    listed = ["git", "ls-files", "-co", "--exclude-standard"]
    files = subprocess.run(listed, cwd=ROOT, text=True, stdout=subprocess.PIPE, check=True).stdout.splitlines()
    for name in files:
        if (ROOT / name).is_file() and not name.startswith("{"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def run_in(folder: Path, *command: str) -> Done:
    """Run Python in a copy of the project, in a home of its own: a module, or code after -c."""
    environ = os.environ | {"PYTHONPATH": str(folder), "LAKEHOUSE_HOME": str(folder.parent / "home"), "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, *(command if command[0] == "-c" else ("-m", *command))],
        cwd=folder,
        env=environ,
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    return done


def own_tests(folder: Path, *arguments: str) -> None:
    """Run the tests of a copy in one process; those that copy or bake a project would copy the copy."""
    ignored = ("--ignore=tests/template", "--ignore=tests/operations/test_new.py")
    done = run_in(folder, "pytest", "-q", "-p", "no:cacheprovider", *ignored, *arguments)
    assert " passed" in done.stdout


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project to add to."""
    return copied(tmp_path_factory.mktemp("new") / "a copy")


@dataclass(frozen=True)
class Added:
    """What the commands did in the copy."""

    dry: dict[str, str]
    """What each printed with --dry-run."""

    printed: dict[str, str]
    """What each printed."""

    def files(self, name: str) -> list[str]:
        """Give the files that a command says to edit."""
        files = self.printed[name].partition("Written by")[0].partition("Next:")[0]
        return [line.strip() for line in files.splitlines() if line.startswith("  ")]

    @property
    def python(self) -> list[str]:
        """Give all Python files."""
        return [file for name in self.printed for file in self.files(name) if file.endswith(".py")]


@pytest.fixture(scope="module")
def added(copy: Path) -> Added:
    """Run every command in the copy, first with --dry-run; one process, as each takes seconds to start."""
    found: dict[str, dict[str, str]] = json.loads(run_in(copy, "-c", SCRIPT, json.dumps(COMMANDS)).stdout)
    return Added(**found)


def test_each_change_is_four_files_and_a_model_two(added: Added, copy: Path) -> None:
    files = {name: added.files(name) for name in added.printed}
    assert [file for names in files.values() for file in names if not (copy / file).is_file()] == []
    staged = {f"{OWN}parcels_per_day": 2}  # a staging model, for a silver table that has none
    counts = {name: len(names) for name, names in files.items()}
    assert counts == {name: FILES[kind] + staged.get(name, 0) for kind, name, *_ in COMMANDS}


def test_a_dry_run_lists_the_same_files_and_writes_none(added: Added) -> None:
    for name, printed in added.dry.items():
        assert [line.strip() for line in printed.splitlines() if line.startswith("  ")] == added.files(name)
        assert "Nothing was written." in printed


def test_the_last_lines_name_the_commands_to_run_next(added: Added) -> None:
    assert added.printed[f"{OWN}parcels"].splitlines()[-3:] == ["Next:", "  make test", "  lakehouse broker start"]
    assert added.printed[f"{OWN}sessions"].endswith(f"  lakehouse stream run {OWN}sessions --until-caught-up\n")
    assert added.printed[f"{OWN}orders_per_day"].endswith(f"  lakehouse dbt build --select +{OWN}orders_per_day\n")


def test_what_was_added_is_clean(added: Added, copy: Path) -> None:
    run_in(copy, "ruff", "check", "--no-cache", *added.python)
    run_in(copy, "ruff", "format", "--no-cache", "--check", *added.python)
    run_in(copy, "sqlfmt", "--check", "--quiet", "models")


def test_the_jobs_are_discovered_with_what_their_options_say(added: Added, copy: Path) -> None:
    names = [name for kind, name, *_ in COMMANDS if kind in ("job", "join")]
    code = f"""
from streaming.job import jobs
for name in {names}:
    job = jobs()[name]
    print(name, *job.reads, *job.writes, job.query.output_mode, job.bounded.max_event_gap, sep="|")
"""
    assert run_in(copy, "-c", code).stdout.replace(OWN, "").splitlines() == [
        "hourly|silver.parcels|gold.hourly|update|0:00:00",
        "sliding|silver.parcels|gold.sliding|update|1:30:00",
        "sessions|silver.parcels|gold.sessions|append|None",
        "weekly|silver.clicks_enriched|gold.weekly|update|7 days, 0:00:00",
        "paid|silver.orders|silver.payments|gold.paid|append|2:00:00",
    ]


@pytest.mark.parametrize("change", ALONE, ids=[kind for kind, _ in ALONE])
def test_the_tests_of_declarations_pass_after_each_kind_alone(change: tuple[str, str], tmp_path: Path) -> None:
    folder = copied(tmp_path / "a copy")
    (command,) = (command for command in COMMANDS if command[:2] == change)
    run_in(folder, "-c", SCRIPT, json.dumps([command]))
    own_tests(folder, "-m", "not slow and not jvm", *DECLARATIONS)


def test_every_test_that_needs_no_jvm_passes_with_them(added: Added, copy: Path) -> None:
    own_tests(copy, "-m", "not slow and not jvm")


@pytest.mark.slow
@pytest.mark.jvm
def test_every_test_passes_with_them(added: Added, copy: Path) -> None:
    own_tests(copy)
    run_in(copy, "mypy")


def change(kind: str, *arguments: str, **options: str) -> partial[Files]:
    """Make a change of a kind, to call with the project's root."""
    kinds: dict[str, Callable[..., Files]] = {"topic": topic, "job": job, "join": join, "model": model}
    return partial(kinds[kind], *arguments, **options)


VISITS, PAIRS = f"{OWN}visits", f"{OWN}pairs"
REFUSED = [
    (change("topic", "Shipments", key="a_key"), "'Shipments' is not a valid name"),
    (change("topic", "ship-ments", key="a_key"), "'ship-ments' is not a valid name"),
    (change("topic", "../../etc", key="a_key"), "is not a valid name"),
    (change("topic", "orders", key="a_key"), "'orders' exists already"),
    (change("topic", VISITS, key="event_id"), "'event_id' exists already"),
    (change("job", "lambda", "silver.clicks"), "'lambda' is a keyword of SQL or Python"),
    (change("job", "sessions", "silver.clicks"), "'sessions' exists already"),
    (change("job", VISITS, "silver.clicsk"), "did you mean 'silver.clicks'?"),
    (change("job", VISITS, "gold.trending"), "There is no table 'gold.trending' to read"),
    (change("job", VISITS, "silver.users"), "silver.users has no watermark"),
    (change("job", VISITS, "silver.late"), "silver.late has no watermark"),
    (change("job", VISITS, "silver.clicks", key="usr_id"), "did you mean 'user_id'?"),
    (change("job", VISITS, "silver.clicks", key="event_time"), "silver.clicks.event_time is of type timestamp"),
    (change("job", VISITS, "silver.clicks", total="agent"), "silver.clicks.agent is of type string"),
    (change("job", VISITS, "silver.clicks", window="1h"), "--window is '1h'; it should be like '10 minutes'"),
    (change("job", VISITS, "silver.clicks", window="0 hours"), "--window is '0 hours'"),
    (change("job", VISITS, "silver.clicks", slide="2 hours"), "--slide is 2 hours, longer than --window, 1 hour"),
    (
        change("job", VISITS, "silver.clicks", session_gap="1 hour", window="1 hour"),
        "--session-gap does not go with --window",
    ),
    (change("join", PAIRS, "silver.orders", "silver.orders"), "--left and --right are both silver.orders"),
    (change("join", PAIRS, "silver.clicks", "silver.payments"), "silver.clicks has no column 'order_id'"),
    (change("join", PAIRS, "silver.orders", "silver.payments", within="soon"), "--within is 'soon'"),
    (change("model", "order_status", "silver.orders"), "'order_status' exists already"),
    (change("model", VISITS, "silver.nothing"), "There is no table 'silver.nothing' to read"),
    (change("model", VISITS, "silver.clicks"), "stg_clicks reads silver.clicks_enriched"),
]


@pytest.mark.parametrize(("refused", "message"), REFUSED)
def test_what_cannot_be_made_is_refused_by_name(refused: partial[Files], message: str) -> None:
    with pytest.raises(LakehouseError, match=r".") as error:
        refused(root=ROOT)
    assert message in error.value.problem


def test_no_name_is_one_that_the_documents_suggest() -> None:
    # Whoever runs a documented command has that name in the project: these tests would then fail on it.
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "operations" / "new" / "commands.py"]
    command = re.compile(r"lakehouse new (?:topic|job|join|model) (\w+)")
    suggested = {name for file in files for name in command.findall(file.read_text())}
    assert {"shipments", "paid_orders"} <= suggested
    added = {name for _, name, *_ in COMMANDS}
    assert suggested.isdisjoint(added | {refused.args[0] for refused, _ in REFUSED})
    assert {name for name in added if not name.startswith(OWN)} == set()


def test_a_file_that_exists_is_not_overwritten_and_nothing_else_is_written(tmp_path: Path) -> None:
    folder = copied(tmp_path / "a copy")
    mine = folder / "expectations" / "rules" / f"silver.{OWN}parcels.yaml"
    mine.write_text("mine")
    with pytest.raises(AssertionError, match=rf"silver\.{OWN}parcels\.yaml exists already"):
        run_in(folder, "lakehouse", "new", "topic", f"{OWN}parcels")
    assert mine.read_text() == "mine"
    assert [file.name for file in folder.rglob(f"*{OWN}*")] == [mine.name]


@pytest.mark.parametrize(
    ("text", "python"),
    [("1 hour", "timedelta(hours=1)"), ("10 minute", "timedelta(minutes=10)"), ("2 days", "timedelta(days=2)")],
)
def test_a_length_of_time_is_written_as_sql_and_as_python(text: str, python: str) -> None:
    found = interval("--window", text)
    assert found.python == python
    assert found.text in ("1 hour", "10 minutes", "2 days")
