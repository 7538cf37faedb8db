"""New topics, jobs and models: each works as it is written, in a copy of the project; a bad name writes nothing."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from config.errors import LakehouseError
from config.settings import ROOT, Settings
from operations.new.skeleton import job, model, topic

Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project to add to."""
    folder = tmp_path_factory.mktemp("new") / "a copy"
    listed = ["git", "ls-files", "-co", "--exclude-standard"]
    files = subprocess.run(listed, cwd=ROOT, text=True, stdout=subprocess.PIPE, check=True).stdout.splitlines()
    for name in files:
        if (ROOT / name).is_file() and not name.startswith("{"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def run(copy: Path, settings: Settings) -> Iterator[Callable[..., Done]]:
    """Run something of the copy, in a home of its own."""
    environ = os.environ | {"PYTHONPATH": str(copy), "LAKEHOUSE_HOME": str(copy.parent / "home"), "COLUMNS": "200"}

    def run(*command: str) -> Done:
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=copy, env=environ, text=True, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done

    yield run
    run("lakehouse", "down")


@pytest.fixture(scope="module")
def added(run: Callable[..., Done]) -> list[str]:
    """Add one of each, each to the one before; give the files that were named."""
    said = run("lakehouse", "new", "topic", "shipments", "--key", "parcel_id").stdout
    said += run("lakehouse", "new", "job", "shipments_per_hour", "--from", "silver.shipments").stdout
    said += run("lakehouse", "new", "model", "shipments_per_day", "--from", "gold.shipments_per_hour").stdout
    return [line.strip() for line in said.splitlines() if line.startswith("  ")]


def test_every_file_is_named_and_there_in_the_style_of_the_house(
    added: list[str], copy: Path, run: Callable[..., Done]
) -> None:
    assert [name for name in added if not (copy / name).is_file()] == []
    assert len(added) == 4 + (4 + 8) + 2
    python = [name for name in added if name.endswith(".py")]
    run("ruff", "check", "--no-cache", *python)
    run("ruff", "format", "--no-cache", "--check", *python)


def test_the_tests_that_come_with_them_pass(added: list[str], run: Callable[..., Done]) -> None:
    tests = [name for name in added if Path(name).name.startswith("test_")]
    assert len(tests) == 2
    assert "3 passed" in run("pytest", "-q", "-p", "no:cacheprovider", *tests).stdout


def test_the_model_is_built_and_its_unit_test_passes(added: list[str], run: Callable[..., Done]) -> None:
    said = run("lakehouse", "dbt", "build", "--select", "shipments_per_day").stdout
    assert "PASS=3 WARN=0 ERROR=0" in said


def test_the_types_of_what_was_added_are_clean(added: list[str], run: Callable[..., Done]) -> None:
    run("mypy", "--follow-imports=silent", *(name for name in added if name.endswith(".py")))


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda root: topic("Shipments", root=root), "'Shipments' is no name"),
        (lambda root: topic("ship-ments", root=root), "'ship-ments' is no name"),
        (lambda root: topic("../../etc", root=root), "is no name"),
        (lambda root: topic("orders", root=root), "'orders' is there already"),
        (lambda root: topic("parcels", key="event_id", root=root), "'event_id' is there already"),
        (lambda root: job("lambda", "silver.clicks", root=root), "'lambda' means something in SQL or Python"),
        (lambda root: job("sessions", "silver.clicks", root=root), "'sessions' is there already"),
        (lambda root: job("visits", "silver.clicsk", root=root), "did you mean 'silver.clicks'?"),
        (lambda root: job("visits", "gold.trending", root=root), "There is no table 'gold.trending' to read"),
        (lambda root: job("visits", "silver.clicks", "usr_id", root=root), "did you mean 'user_id'?"),
        (lambda root: model("order_status", "silver.orders", root=root), "'order_status' is there already"),
        (lambda root: model("visits", "silver.nothing", root=root), "There is no table 'silver.nothing' to read"),
    ],
)
def test_what_cannot_be_made_is_told_and_nothing_is_written(
    tmp_path: Path, make: Callable[[Path], object], told: str
) -> None:
    shutil.copytree(ROOT / "models", tmp_path / "models")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(LakehouseError, match=r".") as error:
        make(tmp_path)
    assert told in error.value.problem
    assert sorted(tmp_path.rglob("*")) == before


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    mine = tmp_path / "expectations" / "rules" / "silver.parcels.yaml"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    with pytest.raises(LakehouseError, match=r"silver\.parcels\.yaml: there already"):
        topic("parcels", root=tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [mine]
    assert mine.read_text() == "mine"
