"""Mutants: code that is wrong on purpose, in a copy of the project; a test that is named next to each must fail."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from config.settings import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.mutants]
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", ".lakehouse", ".*_cache", "__pycache__", "{{*")
PASSED, FAILED = 0, 1  # exit codes of pytest; any other says that the test did not run


@dataclass(frozen=True)
class Mutant:
    """One change of the source, and the test that notices it."""

    name: str
    file: str
    old: str
    new: str
    test: str


def mutants() -> list[Mutant]:
    files = sorted((ROOT / "tests" / "mutants").glob("*.yaml"))
    return [Mutant(**each) for file in files for each in yaml.safe_load(file.read_text())]


def pytest_in(folder: Path, *tests: str) -> subprocess.CompletedProcess[str]:
    """Run tests in a folder, in a process of their own."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "", *tests]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)


def test_every_test_named_passes_without_a_mutation() -> None:
    done = pytest_in(ROOT, *sorted({mutant.test for mutant in mutants()}))
    assert done.returncode == PASSED, done.stdout


@pytest.mark.parametrize("mutant", mutants(), ids=lambda mutant: mutant.name)
def test_a_mutant_does_not_survive(mutant: Mutant, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(ROOT, copy, ignore=LEFT_OUT)
    file = copy / mutant.file
    code = file.read_text()
    assert code.count(mutant.old) == 1, f"{mutant.file} does not contain this once: {mutant.old}"
    file.write_text(code.replace(mutant.old, mutant.new))
    done = pytest_in(copy, mutant.test)
    assert done.returncode == FAILED, f"{mutant.test} does not notice it.\n{done.stdout}{done.stderr}"
