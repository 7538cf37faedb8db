"""Faults, for real: the process is killed with SIGKILL, the broker too; nothing is lost, nothing is doubled."""

import os
import random
import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from payments import until
from processes import LAKEHOUSE, kill_broker, killed_at, lakehouse
from pyspark.sql import SparkSession

from config.kafka import servers
from config.settings import ROOT, Settings
from lake import ledger
from lake.location import table_location
from lake.tables import read_arrow
from local.broker import Broker
from streaming.job import job_named
from streaming.runner import Runner

# In the order in which one writer commits them; the ledger comes last.
TABLES = [
    *("silver.users", "bronze.events", "silver.clicks", "silver.orders", "silver.payments"),
    *("silver.quarantine", "silver.late", "silver.duplicates"),
]
RUN = ["stream", "run", "landing", "--until-caught-up"]


def killed_after(failpoint: str) -> None:
    """Land with a kill right after a commit; one write at a time, so that what follows has not happened."""
    killed_at(f"after {failpoint}", *RUN, LAKEHOUSE_STREAMING__PARALLEL_WRITES="1")


def lands_whole() -> None:
    """Land the rest, and follow every record."""
    done = lakehouse(*RUN)
    assert done.returncode == 0, done.stderr
    checked = lakehouse("check", "ledger")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "id by id" in checked.stdout


def content(settings: Settings) -> dict[str, Counter[str]]:
    """Read every row of every table that landing has written."""
    found = {name: read_arrow(table_location(settings, name)).to_pylist() for name in TABLES}
    return {name: Counter(repr(sorted(row.items())) for row in rows) for name, rows in found.items() if rows}


def unhurt(waiting: Settings, spark: SparkSession, folder: Path) -> dict[str, Counter[str]]:
    """Land the same log in another home, without a fault."""
    kafka = waiting.kafka.model_copy(update={"servers": servers(waiting)})
    other = waiting.at(folder).model_copy(update={"kafka": kafka})
    Runner(other, spark).run([job_named("landing")], until_caught_up=True)
    return content(other)


@pytest.mark.faults
@pytest.mark.slow
def test_killed_between_two_commits_it_continues_with_equal_tables(waiting: Settings) -> None:
    killed_after("silver.clicks")
    assert ledger.entries(waiting) == []
    lands_whole()


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.parametrize("failpoint", [*TABLES, "ops.ledger"])
def test_killed_after_any_commit(waiting: Settings, spark: SparkSession, tmp_path: Path, failpoint: str) -> None:
    killed_after(failpoint)
    done = failpoint == "ops.ledger"
    assert list(content(waiting)) == (TABLES if done else TABLES[: TABLES.index(failpoint) + 1])
    assert bool(ledger.entries(waiting)) == done
    lands_whole()
    assert content(waiting) == unhurt(waiting, spark, tmp_path / "unhurt")


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
    kill_broker(Broker(waiting))
    Broker(waiting).start()
    lands_whole()


@pytest.mark.faults
@pytest.mark.slow
def test_the_broker_killed_in_the_middle_of_a_batch_loses_nothing(
    waiting: Settings, spark: SparkSession, tmp_path: Path
) -> None:
    log = waiting.home / "checkpoints" / "g1" / "landing" / "e1"
    environ = os.environ | {"LAKEHOUSE_STREAMING__RECORDS_PER_BATCH": "1000"}
    with subprocess.Popen([*LAKEHOUSE, *RUN], cwd=ROOT, env=environ, text=True, stderr=subprocess.PIPE) as process:
        until(lambda: (log / "offsets" / "1").exists(), seconds=120)
        kill_broker(Broker(waiting))
        assert not (log / "commits" / "1").exists(), "the batch was still under way"
        Broker(waiting).start()
        _, said = process.communicate(timeout=300)
    # It waits for the broker, though not for ever: on a slow machine it may ask to be started again.
    assert process.returncode == 0 or "Kafka did not answer in time" in said, said
    lands_whole()
    assert content(waiting) == unhurt(waiting, spark, tmp_path / "unhurt")


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
