"""Faults of replay, for real: killed anywhere it comes to the same certificate, and what is served is always whole."""

import os
import random
import time
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from processes import killed_at, killed_when, lakehouse
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.console import Console

from config.declarations import table_named
from config.settings import Settings, load_settings
from expectations.ledger_check import check_ledger, check_truth
from lake.generations import Source
from lake.location import table_location
from lake.views import delta, views
from local.simulator.plan import Plan
from local.simulator.run import simulate
from local.simulator.truth import read_truth
from replay import certificate, manifest
from replay import run as running
from replay.manifest import Replay
from streaming.job import job_named
from streaming.runner import Runner

# One after the other, so that the steps of a replay are always in the same order.
ONE_BY_ONE = ("landing", "clicks_enriched", "views_per_minute")
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
CUT = {"records_per_batch": "1300", "archive_bytes_per_batch": "1k", "parallel_writes": "1"}
Content = dict[str, tuple[int, Decimal | None]]


class Shop:
    """A log that is followed, and what readers find of it."""

    def __init__(self, settings: Settings, spark: SparkSession, jobs: tuple[str, ...]) -> None:
        self.settings, self.spark, self.jobs = settings, spark, [job_named(name) for name in jobs]
        self.tables = [name for job in self.jobs for name in job.writes if name != "bronze.events"]
        self.follow()

    def follow(self) -> None:
        """Run the live jobs until they have caught up; they are not cut, as partitions must not lie far apart."""
        Runner(self.settings, self.spark).run(self.jobs, until_caught_up=True)

    def begun(self, source: Source) -> Replay:
        """Leave what a replay of these jobs leaves that is killed as soon as it has begun."""
        todo = manifest.new(self.settings, self.jobs, source, "earliest")
        manifest.save(self.settings, todo)
        return todo

    def resumed(self, generation: int) -> Replay:
        """Bring a replay to its end."""
        return running.run(self.spark, load_settings(), manifest.interrupted(self.settings, generation))

    def proof(self, generation: int) -> dict[str, Any]:
        """Give what the certificate of a generation says; not its name, and not when."""
        replay = manifest.replay_of(self.settings, generation)
        values = certificate.verify(self.spark, self.settings, replay, lambda _: None).values
        return {name: value for name, value in values.items() if name not in ("generation", "verified_at")}

    def content(self, generation: int) -> Content:
        """Tell the content of every table of a generation."""
        paths = {name: table_location(self.settings, name, generation) for name in self.tables}
        return self._content({name: f"select * from {delta(path)}" for name, path in paths.items()})

    def served(self) -> Content:
        """Tell the content of every table as readers find it."""
        return self._content(views(self.settings))

    def _content(self, queries: dict[str, str]) -> Content:
        parts = []
        for name in self.tables:
            columns = ", ".join(f"`{column}`" for column in table_named(name).stored)
            # Added up: of two equal rows neither is lost.
            content = f"sum(cast(xxhash64({columns}) as decimal(38, 0)))"
            parts.append(f"select '{name}' as name, count(*) as rows, {content} as content from ({queries[name]})")
        return {row.name: (row.rows, row.content) for row in self.spark.sql(" union all ".join(parts)).collect()}

    def goes_on(self) -> None:
        """Follow events that come a little out of order with the rest: none is lost, none is doubled."""
        start = Plan().end - timedelta(minutes=10)
        simulate(self.settings, Plan(seed=6, start=start, events=400, late=0.03), Console(quiet=True))
        self.follow()
        verdict = check_ledger(self.spark, self.settings)
        assert (verdict.faults, verdict.waiting) == ([], 0)
        assert check_truth(self.spark, self.settings, read_truth(self.settings)) == []
        found = {name: self.spark.sql(query) for name, query in views(self.settings).items() if name in self.tables}
        clicks = found["silver.clicks"]
        assert clicks.select("event_id").distinct().count() == clicks.count()
        assert found["silver.clicks_enriched"].count() == clicks.count()
        counted = found["gold.views_per_minute"].agg(F.sum("views")).collect()[0][0]
        assert counted == clicks.filter("type = 'page_view'").count()


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replays of this test, in whatever process, go in several batches; the settings of the live jobs are as read."""
    for name, value in CUT.items():
        monkeypatch.setenv(f"LAKEHOUSE_STREAMING__{name.upper()}", value)


@pytest.mark.faults
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
    shop.goes_on()


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
    shop.goes_on()
    checked = lakehouse("check", "ledger")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def _killed_before_it_began(shop: Shop, last: int) -> None:
    """Kill a replay when it has told its plan, before Spark has started: it leaves nothing that could be resumed."""
    assert killed_when(lambda said: said.readline().startswith("Generation"), "replay", "run")
    assert [each.generation for each in manifest.replays(shop.settings)] == [last]


def _files(settings: Settings, generation: int) -> int:
    """Count what a generation has written: rows, commits, checkpoints."""
    walked = [each for folder in ("warehouse", "checkpoints") for each in os.walk(settings.home / folder)]
    return sum(len(files) for path, _, files in walked if f"g{generation}" in Path(path).parts)
