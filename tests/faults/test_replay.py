"""Faults of replay, for real: killed anywhere it comes to the same certificate, and what is served is always whole."""

import os
import random
import time
from pathlib import Path

import pytest
from processes import killed_at, killed_when, lakehouse
from pyspark.sql import SparkSession
from shop import ONE_BY_ONE, Shop

from config.settings import Settings
from lake.generations import Source
from local.simulator.plan import Plan
from replay import manifest

# And one beside them that keeps what is open to itself, and is closed at the end.
SIDE_BY_SIDE = (*ONE_BY_ONE, "sessions")
STEPS_OF_RUN = [
    "after replay manifest",
    "after silver.users",
    "after silver.clicks",
    "after silver.orders",
    "after silver.payments",
    "after silver.quarantine",
    "after silver.duplicates",
    "after ops.ledger",
    "after silver.clicks_enriched",
    "after ops.batches",
    "after gold.views_per_minute",
    "after replay run",
    "after replay closing",
]
# A replay in several batches, and one write at a time, so that what follows a failpoint has not happened.
CUT = {"records_per_batch": "1300", "parallel_writes": "1"}


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replays of this test, in whatever process, go in several batches; the settings of the live jobs are as read."""
    for name, value in CUT.items():
        monkeypatch.setenv(f"LAKEHOUSE_STREAMING__{name.upper()}", value)


@pytest.mark.faults
@pytest.mark.slow
def test_killed_in_the_middle_and_right_after_the_switch(waiting: Settings, spark: SparkSession) -> None:
    shop = Shop(waiting, spark, ONE_BY_ONE)
    before = shop.served()
    number = shop.begun("kafka").generation
    killed_at("after silver.clicks_enriched", "replay", "run", "--resume", str(number))
    assert shop.served() == before
    shop.resumed(number)
    against = shop.proof(number)["against"]["what is served"]
    assert {reason for each in against.values() for reason in each["by_reason"]} == {"late"}
    killed_at("after ops.generations", "replay", "promote", str(number))
    assert shop.served() == shop.content(number) != before
    shop.goes_on(Plan().end)


@pytest.mark.faults
@pytest.mark.slow
def test_killed_at_every_step_of_a_run(waiting: Settings, spark: SparkSession, cut: None) -> None:
    shop = Shop(waiting, spark, ONE_BY_ONE)
    before = shop.served()
    unhurt = shop.resumed(shop.begun("kafka").generation).generation
    hurt = shop.begun("kafka").generation
    for step in STEPS_OF_RUN:
        killed_at(step, "replay", "run", "--resume", str(hurt))
        assert shop.served() == before, step
    shop.resumed(hurt)
    assert shop.proof(hurt) == shop.proof(unhurt)


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.parametrize(("seed", "source"), [(0, "kafka"), (1, "bronze"), (2, "kafka")])
def test_killed_at_random_and_at_every_step_of_a_promotion(
    waiting: Settings, spark: SparkSession, cut: None, seed: int, source: Source
) -> None:
    shop, chance = Shop(waiting, spark, SIDE_BY_SIDE), random.Random(seed)
    before = shop.served()
    unhurt = shop.resumed(shop.begun(source).generation).generation
    _killed_before_it_began(shop, unhurt)
    hurt = shop.begun(source).generation
    # By how much it has written, not by the clock: then it does not matter how fast the machine is.
    for share in sorted(chance.uniform(0.05, 0.95) for _ in range(3)):
        enough = share * _files(waiting, unhurt)
        if killed_when(lambda _: _files(waiting, hurt) >= enough, "replay", "run", "--resume", str(hurt)):  # noqa: B023
            assert shop.served() == before, share
    if manifest.replay_of(waiting, hurt).state == "running":
        shop.resumed(hurt)
    assert shop.proof(hurt) == shop.proof(unhurt)
    after = shop.content(hurt)
    assert after != before

    promote = ("replay", "promote", str(hurt))
    if source == "bronze":
        killed_at("after replay epoch", *promote)
        assert shop.served() == before
    began = time.monotonic()
    killed_at("before ops.generations", *promote)
    assert shop.served() == before
    moment = time.monotonic() + chance.uniform(0.1, 1) * (time.monotonic() - began)
    killed_when(lambda _: time.monotonic() > moment, *promote)
    assert shop.served() in (before, after)
    killed_at("after ops.generations", *promote)
    assert shop.served() == after
    again = lakehouse(*promote)
    assert again.returncode == 0, again.stdout + again.stderr
    assert shop.served() == after
    shop.goes_on(Plan().end)
    checked = lakehouse("check", "ledger")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def _killed_before_it_began(shop: Shop, last: int) -> None:
    """Kill a replay when it has printed its plan, before Spark has started: it leaves nothing that could be resumed."""
    assert killed_when(lambda said: said.readline().startswith("Generation"), "replay", "run")
    assert [each.generation for each in manifest.replays(shop.settings)] == [last]


def _files(settings: Settings, generation: int) -> int:
    """Count what a generation has written: rows, commits, checkpoints."""
    walked = [each for folder in ("warehouse", "checkpoints") for each in os.walk(settings.home / folder)]
    return sum(len(files) for path, _, files in walked if f"g{generation}" in Path(path).parts)
