"""`lakehouse dbt` is dbt: it takes what dbt takes, gives its exit code, and starts nothing that is not needed."""

import os
import subprocess
import sys

import pytest

from config.settings import ROOT, Settings


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["ls", "--select", "unpaid_orders", "--resource-type", "model"], 0, "lakehouse.marts.unpaid_orders"),
        (["parse", "--no-such-option"], 2, "No such option"),
        (["ls", "--vars", "architecture: zeta"], 2, "architecture is kappa or lambda, not zeta"),
    ],
)
def test_arguments_and_exit_codes_are_dbts(fresh_home: Settings, arguments: list[str], code: int, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lakehouse", "dbt", *arguments],
        cwd=ROOT,
        env=dict(os.environ),
        text=True,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, said in done.stdout + done.stderr) == (code, True), done.stdout + done.stderr
    assert not (fresh_home.home / "catalog").exists()
