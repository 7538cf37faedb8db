"""docs/quality-checks.md: every command and edit of it, in a copy of the project, as a reader would."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from config.settings import ROOT, Settings

PAGE = Path("docs") / "quality-checks.md"


@pytest.fixture
def copy(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the project, with an empty home; the commands of this test are its own."""
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True, stdout=-1, check=True)
    there = [name for name in names.stdout.splitlines() if (ROOT / name).is_file()]
    for name in there:
        (tmp_path / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / "copy" / name)
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "copy"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "200")
    yield tmp_path / "copy"
    done(["lakehouse", "broker", "stop"], tmp_path / "copy")


def done(command: list[str], copy: Path, given: str | None = None) -> str:
    ran = subprocess.run(command, cwd=copy, input=given, text=True, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_the_page_does_what_it_says(copy: Path) -> None:
    said = []
    for kind, block in re.findall(r"^```(sh|diff)\n(.*?)^```$", (copy / PAGE).read_text(), re.M | re.S):
        command, given = (
            (["git", "apply"], block) if kind == "diff" else (["bash", "-euo", "pipefail", "-c", block], None)
        )
        said.append(done(command, copy, given))
    _, first, suites, failing, refused, redriven, last = said
    assert re.search(r"✓ check silver: \d+ rules hold for 7 tables", first)
    assert re.search(r"^silver\.payments [1-9]", suites, re.M)
    assert "A country is two capital letters (ISO 3166). (country_code)" in suites
    assert "✗ silver.payments: We take cards, nothing else. (cards_only, " in failing
    assert "lakehouse sql \"select event_id, method from silver.payments where not (method = 'card')\"" in failing
    assert "exit code 1" in failing
    (count,) = (int(number) for number in re.findall(r"payments\W+cards_only\W+(\d+)", refused))
    moved = [int(number) for number in re.findall(r"^(\d+) → ", redriven, re.M)]
    assert sum(moved) == count > 10
    assert "Nothing has changed" in redriven
    assert "✓ check silver" in last
    assert "✓ Every record landed is in bronze once and in exactly one place after it." in last
