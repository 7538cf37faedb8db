"""A project made from the template passes all of its own tests, in an environment of its own."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.template.baking import LEFT_OUT, outside, run

pytestmark = pytest.mark.template
IN_CI = "kappa"
"""The one that is tested in full by every run of CI; the others by `make test-template`."""


def chosen(architecture: str) -> list[pytest.MarkDecorator]:
    in_ci = architecture == IN_CI and os.environ.get("CI") == "true"
    return [] if in_ci else [pytest.mark.slow]


@pytest.mark.parametrize("architecture", [pytest.param(each, marks=chosen(each)) for each in sorted(LEFT_OUT)])
def test_its_own_tests_pass(bake: Callable[..., Path], architecture: str) -> None:
    # One process for its tests: the tests around it go on beside it.
    alone = {"PATH": outside()["PATH"].partition(os.pathsep)[2]}
    done = run("make", "test", "WORKERS=1", folder=bake(architecture), **alone)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
