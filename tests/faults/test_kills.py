"""Faults, for real: the process is killed with SIGKILL, the broker too; nothing is lost, nothing is doubled."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from rich.console import Console

from config.settings import ROOT, Settings
from local.broker import Broker
from local.simulator.plan import Plan
from local.simulator.run import simulate
from streaming import ledger

PLACES = ["bronze.events", "silver.clicks", "silver.users", "silver.quarantine", "silver.late", "silver.duplicates"]
LAKEHOUSE = [sys.executable, "-m", "lakehouse"]
RUN = ["stream", "run", "landing", "--until-caught-up"]


@pytest.fixture
def waiting(fresh_home: Settings, spark: object) -> Iterator[Settings]:
    """A log with records that wait to be landed."""
    broker = Broker(fresh_home)
    broker.start()
    try:
        simulate(fresh_home, Plan(seed=5, events=3000, malformed=0.02, late=0.03, duplicates=0.03), Console(quiet=True))
        yield fresh_home
    finally:
        broker.stop()


def lakehouse(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a user would, in a process of its own."""
    return subprocess.run(
        [*LAKEHOUSE, *arguments], cwd=ROOT, env=os.environ | environ, capture_output=True, text=True, check=False
    )


def killed_after(place: str) -> None:
    """Land with a kill right after a commit; one write at a time, so that what follows has not happened."""
    environ = {"LAKEHOUSE_FAILPOINT": f"after {place}", "LAKEHOUSE_STREAMING__PARALLEL_WRITES": "1"}
    assert lakehouse(*RUN, **environ).returncode == -signal.SIGKILL


def lands_whole() -> None:
    """Land the rest, and follow every record."""
    done = lakehouse(*RUN)
    assert done.returncode == 0, done.stderr
    checked = lakehouse("check", "ledger")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "id by id" in checked.stdout


@pytest.mark.faults
def test_killed_between_two_commits_it_goes_on_as_if_nothing_had_been(waiting: Settings) -> None:
    killed_after("silver.clicks")
    assert ledger.entries(waiting) == []
    lands_whole()


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_killed_after_any_commit(waiting: Settings, place: str) -> None:
    killed_after(place)
    assert ledger.entries(waiting) == []
    lands_whole()


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_killed_at_random_and_the_broker_too(waiting: Settings, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(3):
        process = subprocess.Popen([*LAKEHOUSE, *RUN], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(timeout=chance.uniform(8, 30))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
    status = Broker(waiting).status()
    assert status.pid
    os.kill(status.pid, signal.SIGKILL)
    while Broker(waiting).status().running:
        time.sleep(0.1)
    Broker(waiting).start()
    lands_whole()


@pytest.mark.faults
@pytest.mark.slow
def test_a_deleted_checkpoint_is_refused_and_reset_goes_on(waiting: Settings) -> None:
    killed_after("silver.clicks")
    shutil.rmtree(waiting.home / "checkpoints")
    refused = lakehouse(*RUN)
    assert refused.returncode == 2
    assert "lakehouse stream reset landing" in refused.stderr
    assert lakehouse("stream", "reset", "landing").returncode == 0
    lands_whole()
