"""Previous code: a comparison executes code of this project and its git history, and never what a home contains."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from config import git
from config.settings import ROOT, Settings
from lake.generations import serving
from lake.location import Location
from streaming import code_version
from streaming.checkpoint import job_folder
from streaming.code_version import ensure_same_code, module_path, recorded
from streaming.job import Job, job_named
from streaming.previous_code import previous_job, why_unavailable

JOB = job_named("views_per_minute")
CHANGED = replace(JOB, version=2)
PATH = module_path(JOB.module)
OTHER = {"code_version": "0" * 16, "version": 1}  # no code of today


@pytest.fixture
def folder(fresh_home: Settings) -> Location:
    return job_folder(JOB.name, fresh_home, 1)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in a folder of a repository of its own, with the job committed."""
    folder = tmp_path / "repository" / "project"
    (folder / PATH).parent.mkdir(parents=True)
    (folder / PATH).write_bytes((ROOT / PATH).read_bytes())
    monkeypatch.setattr(git, "ROOT", folder)
    run(folder, "init", "--quiet")
    commit(folder)
    return folder


def run(project: Path, *arguments: str) -> str:
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *who, *arguments], cwd=project, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(project: Path) -> str:
    run(project, "add", ".")
    run(project, "commit", "--quiet", "--message", "A change")
    return run(project, "rev-parse", "HEAD")


def record(folder: Location, **values: object) -> None:
    """Record a checkpoint of other code, as if it had been changed since."""
    (folder / code_version.FILE).write(json.dumps({**OTHER, "module": JOB.module, **values}))


def unavailable(settings: Settings, because: str, job: Job = CHANGED) -> bool:
    """Return whether the code is not loaded, and whether the message says why."""
    (said,) = why_unavailable([job], settings, serving(settings))
    return previous_job(job, job_folder(job.name, settings, 1)) is None and because in said


def test_the_code_of_a_commit_is_loaded_after_it_was_changed(project: Path, folder: Location) -> None:
    ensure_same_code(JOB, folder)
    (project / PATH).write_text("raise SystemExit")
    commit(project)
    record(folder, commit=(recorded(folder) or {})["commit"])
    previous = previous_job(CHANGED, folder)
    assert previous is not None and previous is not JOB
    assert (previous.name, previous.version, previous.reads) == (JOB.name, JOB.version, JOB.reads)


def test_code_in_a_home_is_not_executed(project: Path, folder: Location, fresh_home: Settings) -> None:
    record(folder, source="raise SystemExit")  # as older releases kept it
    assert unavailable(fresh_home, "it was not committed when it ran, or there was no git")


def test_code_that_the_project_still_has_needs_no_git(
    fresh_home: Settings, folder: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git, "ROOT", tmp_path)
    monkeypatch.setattr(git, "commit_with", lambda _: None)
    ensure_same_code(JOB, folder)
    assert previous_job(CHANGED, folder) is JOB
    assert previous_job(JOB, folder) is None  # it is no other version
    assert why_unavailable([CHANGED, JOB], fresh_home, serving(fresh_home)) == []


def test_code_with_uncommitted_changes_has_no_commit(project: Path, folder: Location, fresh_home: Settings) -> None:
    (project / PATH).write_text("# not committed")
    ensure_same_code(JOB, folder)
    assert (recorded(folder) or {})["commit"] is None
    record(folder, commit=None)
    assert unavailable(fresh_home, "it was not committed when it ran, or there was no git")


def test_a_change_that_is_no_other_code_keeps_the_commit(project: Path, folder: Location) -> None:
    ensure_same_code(JOB, folder)
    before = recorded(folder) or {}
    assert before["commit"] == run(project, "rev-parse", "HEAD")
    (project / PATH).write_text("# not committed")  # to this project it is the same code: it is imported from elsewhere
    ensure_same_code(JOB, folder)
    assert recorded(folder) == before


def test_a_commit_that_nobody_merged_is_not_executed(project: Path, folder: Location, fresh_home: Settings) -> None:
    run(project, "checkout", "--quiet", "-b", "fetched")
    (project / PATH).write_text((ROOT / PATH).read_text() + "\nraise SystemExit\n")
    fetched = commit(project)
    run(project, "checkout", "--quiet", "-")
    record(folder, commit=fetched)
    assert unavailable(fresh_home, f"the history of this branch has no commit {fetched[:12]}")


@pytest.mark.parametrize(
    ("values", "because"),
    [
        ({"commit": "HEAD"}, "no commit HEAD"),
        ({"commit": "--output=x"}, "no commit --output=x"),
        ({"module": "../../elsewhere"}, "not committed"),
        ({"module": "streaming.gone"}, "with streaming/gone.py"),
        ({"module": "streaming.other"}, "it defines no job"),
        ({"module": "streaming.broken"}, "No module named 'streaming.gone'"),
    ],
)
def test_only_a_module_with_a_job_at_a_commit_is_executed(
    project: Path, folder: Location, fresh_home: Settings, values: dict[str, str], because: str
) -> None:
    (project / "streaming" / "other.py").write_text("raise SystemExit")
    (project / "streaming" / "broken.py").write_text("from streaming.gone import x\n\n\ndef job():\n    return x\n")
    record(folder, **({"commit": commit(project)} | values))
    assert unavailable(fresh_home, because)


@pytest.mark.parametrize("without", ["git", "a repository"])
def test_without_git_there_is_no_commit(
    tmp_path: Path, folder: Location, monkeypatch: pytest.MonkeyPatch, without: str
) -> None:
    monkeypatch.setattr(git, "ROOT", tmp_path)
    if without == "git":
        monkeypatch.setenv("PATH", str(tmp_path))
    ensure_same_code(JOB, folder)
    assert (recorded(folder) or {})["commit"] is None
