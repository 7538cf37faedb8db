"""A project made from the template passes its own tests, in an environment of its own."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.template.baking import LEFT_OUT, outside, run

pytestmark = [pytest.mark.template, pytest.mark.slow]


@pytest.mark.parametrize("architecture", sorted(LEFT_OUT))
def test_all_its_own_tests_pass(bake: Callable[..., Path], architecture: str) -> None:
    alone = {"PATH": outside()["PATH"].partition(os.pathsep)[2]}
    done = run("make", "test", folder=bake(architecture), **alone)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


def test_all_its_own_tests_pass_after_every_change_that_lakehouse_new_makes(bake: Callable[..., Path]) -> None:
    alone = {"PATH": outside()["PATH"].partition(os.pathsep)[2]}
    arguments = "ARGS=-m slow tests/operations/test_new.py"
    done = run("make", "test", arguments, "WORKERS=1", folder=bake("kappa"), **alone)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
