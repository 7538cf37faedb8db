"""What tests of the template share: commands run outside this project, and the files that a project should have."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from config.features import of_feature
from config.settings import PREFIX, ROOT

NAMED = {"project_name": "Quince Orchard", "project_slug": "quince-orchard", "description": 'Trees, "fruit" & \\more.'}
LEFT_OUT = {
    "both": ["origin"],
    "kappa": ["origin", "batch", "comparison"],
    "lambda": ["origin", "replay", "comparison"],
}


def outside() -> dict[str, str]:
    """Give the environment without what makes commands work in the home of the tests."""
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith((PREFIX, "PYTEST", "COV"))}
    return kept | {"PATH": tools, "COOKIECUTTER_CONFIG": os.devnull, "NO_COLOR": "1", "COLUMNS": "200"}


def run(*command: str, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command outside this project."""
    return subprocess.run(
        command,
        cwd=folder,
        env=outside() | environ,
        text=True,
        capture_output=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def run_in(project: Path, *command: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a module of Python in a baked project, as if it alone were installed."""
    return run(sys.executable, "-m", *command, folder=project, **alone(project), **environ)


def alone(project: Path) -> dict[str, str]:
    """Give the variables by which Python finds a baked project, and not this one."""
    return {"PYTHONPATH": f"{Path(__file__).parent / 'alone'}{os.pathsep}{project}", "PYTHONDONTWRITEBYTECODE": "1"}


def files_of(folder: Path) -> set[str]:
    """List the files of a checkout, without what git ignores."""
    listed = run("git", "ls-files", "-co", "--exclude-standard", folder=folder).stdout
    return {name for name in listed.splitlines() if (folder / name).is_file() or (folder / name).is_symlink()}


@cache
def live_files() -> frozenset[str]:
    """List the files of this repository, without the template's own parts."""
    own = ("cookiecutter.json", "hooks/", "{{cookiecutter.project_slug}}/")
    return frozenset(name for name in files_of(ROOT) if not name.startswith(own))


def wanted(architecture: str) -> set[str]:
    """Work out which files a project of an architecture has."""
    found = set(live_files())
    for feature in LEFT_OUT[architecture]:
        found -= set(of_feature(feature, list(live_files())))
    return found
