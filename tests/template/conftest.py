"""Projects baked from the template, one of each architecture for all tests."""

from collections.abc import Callable
from pathlib import Path

import pytest

from config.settings import ROOT
from tests.template.baking import NAMED, run


@pytest.fixture(scope="session")
def bake(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Bake a project, each only once."""
    folder = tmp_path_factory.mktemp("a bakery")

    def bake(architecture: str = "both", **answers: str) -> Path:
        answers = NAMED | answers | {"architecture": architecture}
        there = folder / f"{architecture} {answers['project_slug']}"
        if not there.exists():
            extra = [f"{key}={value}" for key, value in answers.items()]
            done = run("cookiecutter", str(ROOT), "--no-input", "-o", str(there), *extra, folder=folder)
            assert done.returncode == 0, done.stdout + done.stderr
        return there / answers["project_slug"]

    return bake
