"""A project made from the template passes its own tests, in an environment of its own."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.template.baking import LEFT_OUT, outside, run

pytestmark = pytest.mark.template
in_ci = pytest.mark.skipif(os.environ.get("CI") != "true", reason="by `make test-template`, or where CI=true")


def passes(project: Path, *arguments: str) -> None:
    """Run `make test` as its owner would."""
    alone = {"PATH": outside()["PATH"].partition(os.pathsep)[2]}
    done = run("make", "test", *arguments, folder=project, **alone)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


@in_ci
def test_what_differs_in_a_kappa_project_passes_its_tests(bake: Callable[..., Path]) -> None:
    # Not all of them: they are the files that CI runs here too. Its models and its commands are other ones.
    passes(bake("kappa"), "ARGS=tests/models tests/operations")


@pytest.mark.slow
@pytest.mark.parametrize("architecture", sorted(LEFT_OUT))
def test_all_its_own_tests_pass(bake: Callable[..., Path], architecture: str) -> None:
    passes(bake(architecture))
