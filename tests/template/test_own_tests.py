"""A project made from the template passes its own tests, in an environment of its own."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.template.baking import LEFT_OUT, outside, run

pytestmark = pytest.mark.template
in_ci = pytest.mark.skipif(os.environ.get("CI") != "true", reason="by `make test-template`, or where CI=true")


def passes(project: Path, *arguments: str) -> None:
    """Run `make test` as its owner would; in one process, as the tests around it go on beside it."""
    alone = {"PATH": outside()["PATH"].partition(os.pathsep)[2]}
    done = run("make", "test", "WORKERS=1", *arguments, folder=project, **alone)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


@in_ci
def test_the_tests_of_a_kappa_project_pass(bake: Callable[..., Path]) -> None:
    # Without what takes longest: the guides and faults are the same files as here, where CI runs them anyway.
    passes(bake("kappa"), "ARGS=-m 'not slow and not guides and not faults'")


@pytest.mark.slow
@pytest.mark.parametrize("architecture", sorted(LEFT_OUT))
def test_all_its_own_tests_pass(bake: Callable[..., Path], architecture: str) -> None:
    passes(bake(architecture))
