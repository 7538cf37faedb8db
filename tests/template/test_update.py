"""An update brings what the template has gained since into a project, and keeps what its owner has changed."""

import json
from pathlib import Path

import pytest

from config.settings import ROOT
from tests.template.baking import NAMED, files_of, run

pytestmark = pytest.mark.template


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=Owner", "-c", "user.email=owner@example.org"]
    done = run("git", *who, *arguments, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def template(tmp_path: Path) -> Path:
    """A repository with an older state of the template, and on top of it the present one."""
    folder = tmp_path / "template"
    for name in files_of(ROOT):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_symlink():
            target.symlink_to((ROOT / name).readlink())
        else:
            target.write_bytes((ROOT / name).read_bytes())
            target.chmod((ROOT / name).stat().st_mode)
    doctor, orders, old = (
        folder / name for name in ("operations/doctor.py", "config/topics/orders.yaml", "docs/old.md")
    )
    present = doctor.read_text(), orders.read_text()
    # The older state lacks a file, has another line in one, and one file more.
    doctor.write_text(present[0].replace("MEMORY_GIB = 4", "MEMORY_GIB = 3"))
    orders.unlink()
    old.write_text("# Old\n")
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", "older")
    doctor.write_text(present[0])
    orders.write_text(present[1])
    old.unlink()
    return folder


def test_a_project_is_brought_up_to_date_with_its_own_changes_kept(template: Path, tmp_path: Path) -> None:
    answers = json.dumps(NAMED | {"architecture": "kappa"})
    made = run("cruft", "create", str(template), "--no-input", "--extra-context", answers, folder=tmp_path)
    assert made.returncode == 0, made.stdout + made.stderr
    project = tmp_path / NAMED["project_slug"]
    readme = project / "README.md"
    readme.write_text(readme.read_text() + "\nOur own words.\n")
    (project / "streaming" / "ours.py").write_text('"""Ours."""\n')
    (project / "LICENSE").unlink()
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "-m", "ours")

    git(template, "add", "--all")
    git(template, "commit", "--quiet", "-m", "present")
    assert run("cruft", "check", folder=project).returncode == 1
    done = run("cruft", "update", "--skip-apply-ask", folder=project)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "MEMORY_GIB = 4" in (project / "operations" / "doctor.py").read_text()
    topic = "config/topics/orders.yaml"
    assert (project / topic).read_bytes() == (ROOT / topic).read_bytes()
    assert not (project / "docs" / "old.md").exists()
    assert readme.read_text().endswith("\nOur own words.\n")
    assert (project / "streaming" / "ours.py").exists()
    assert not (project / "LICENSE").exists()
    assert not (project / "batch").exists()
    assert list(project.rglob("*.rej")) == []
    assert run("cruft", "check", folder=project).returncode == 0
    assert git(project, "log", "--format=%s") == "ours\nStart from the template\n"
