"""One home whose commands are killed with SIGKILL, one after the other: landing, a redrive, a promotion."""

from collections import Counter

import pytest
from processes import killed_at
from pyspark.sql import SparkSession
from strict_rules import too_strict

from config.declarations import table_named
from config.settings import Settings
from config.terminal import Terminal
from expectations.ledger_check import check_ledger, check_truth
from expectations.quarantine.plan import unfinished
from expectations.quarantine.redrive import redrive
from lake import generations, ledger
from lake.location import table_location
from lake.tables import read_arrow
from local.simulator.plan import Plan
from local.simulator.run import simulate
from local.simulator.truth import read_truth
from replay import certificate, manifest
from replay import run as running
from streaming.job import job_named
from streaming.runner import Runner

VIEWS = "gold.views_per_minute"


def every_record_is_in_one_place(spark: SparkSession, settings: Settings) -> None:
    checked = check_ledger(spark, settings)
    assert (checked.faults, checked.waiting) == ([], 0)
    assert check_truth(spark, settings, read_truth(settings)) == []


def rows(settings: Settings, generation: int) -> Counter[str]:
    table = table_named(VIEWS)
    found = read_arrow(table_location(settings, VIEWS, generation), columns=[*table.key, "views"])
    return Counter(map(repr, found.to_pylist()))


@pytest.mark.faults
def test_killed_while_landing_redriving_and_promoting_nothing_is_lost_or_doubled(
    waiting: Settings, spark: SparkSession
) -> None:
    # One write at a time, so that nothing after the failpoint has happened.
    land = ("stream", "run", "landing", "--until-caught-up")
    killed_at("after silver.clicks", *land, LAKEHOUSE_STREAMING__PARALLEL_WRITES="1")
    assert ledger.entries(waiting) == []
    landing = [job_named("landing")]
    Runner(waiting, spark).run(landing, until_caught_up=True)
    every_record_is_in_one_place(spark, waiting)

    next_day = Plan(seed=8, start=Plan().end, events=500, malformed=0.02)
    simulate(waiting, next_day, Terminal(quiet=True))
    with too_strict():
        Runner(waiting, spark).run(landing, until_caught_up=True)
    killed_at("redrive: after silver.quarantine", "quarantine", "redrive")
    assert unfinished(waiting, 1)
    assert any("a redrive" in fault.lower() for fault in check_ledger(spark, waiting).faults)
    assert sum(redrive(spark, waiting, 1).moved.values()) > 50
    assert not unfinished(waiting, 1)
    every_record_is_in_one_place(spark, waiting)

    views = job_named("views_per_minute")
    Runner(waiting, spark).run([job_named("clicks_enriched"), views], until_caught_up=True)
    replay = running.run(spark, waiting, manifest.new(waiting, [views], "kafka", "earliest"))
    certificate.verify(spark, waiting, replay, lambda _: None)
    assert replay.tables == [VIEWS]
    killed_at("after ops.generations", "replay", "promote", str(replay.generation))
    assert generations.live(waiting)[VIEWS] == replay.generation
    before, after = (rows(waiting, number) for number in (1, replay.generation))
    assert before == after != Counter()
