"""`lakehouse dbt` is dbt: it takes dbt's arguments, returns its exit code, and starts only what is needed."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from config.settings import ROOT, Settings
from operations.dbt.run import environment, run, uses_session


@pytest.fixture(scope="module")
def dbt_home(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """A fresh home, with the variables that a run of dbt sets, for these tests only."""
    own = settings.at(tmp_path_factory.mktemp("commands"))
    with pytest.MonkeyPatch.context() as environ:
        for name, value in environment(own).items():
            environ.setenv(name, value)
        yield own


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["ls", "--select", "unpaid_orders", "--resource-type", "model"], 0, "lakehouse.marts.unpaid_orders"),
        (["ls", "--selector", "marts", "--resource-type", "model"], 0, "lakehouse.staging.silver.stg_clicks"),
        (["ls", "--vars", "architecture: zeta"], 2, "architecture is kappa or lambda, not zeta"),
    ],
)
def test_arguments_and_exit_codes_are_dbts(
    dbt_home: Settings, capfd: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    assert run(dbt_home, arguments) == code
    assert said in capfd.readouterr().out
    assert not (dbt_home.home / "catalog").exists()


def test_the_command_passes_arguments_and_the_exit_code_on(fresh_home: Settings) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lakehouse", "dbt", "parse", "--no-such-option"],
        cwd=ROOT,
        env=dict(os.environ),
        text=True,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, "No such option" in done.stdout + done.stderr) == (2, True), done.stdout + done.stderr
    assert not (fresh_home.home / "catalog").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["build"], True),
        (["build", "--target", "local"], True),
        (["build", "--target", "cluster"], False),
        (["build", "--target=dev", "--select", "marts"], False),
        (["build", "-t", "cluster"], False),
    ],
)
def test_spark_starts_in_this_process_only_for_a_session_target(arguments: list[str], expected: bool) -> None:
    assert uses_session(arguments) is expected
