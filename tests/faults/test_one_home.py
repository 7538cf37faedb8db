"""One home whose commands are killed with SIGKILL, one after the other: landing, a redrive, a promotion."""

import pytest
from killing import killed_at
from pyspark.sql import SparkSession
from rich.console import Console
from shop import ONE_BY_ONE, Shop
from strict_rules import too_strict

from config.settings import Settings
from expectations.conservation import check_ledger, check_truth
from expectations.quarantine.plan import unfinished
from expectations.quarantine.redrive import redrive
from local.simulator.plan import Plan
from local.simulator.run import simulate
from local.simulator.truth import read_truth
from streaming import ledger
from streaming.job import job_named
from streaming.runner import Runner


def every_record_is_in_one_place(spark: SparkSession, settings: Settings) -> None:
    checked = check_ledger(spark, settings)
    assert (checked.faults, checked.waiting) == ([], 0)
    assert check_truth(spark, settings, read_truth(settings)) == []


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
    simulate(waiting, next_day, Console(quiet=True))
    with too_strict():
        Runner(waiting, spark).run(landing, until_caught_up=True)
    killed_at("redrive: after silver.quarantine", "quarantine", "redrive")
    assert unfinished(waiting, 1)
    assert any("a redrive" in fault.lower() for fault in check_ledger(spark, waiting).faults)
    assert sum(redrive(spark, waiting, 1).moved.values()) > 50
    assert not unfinished(waiting, 1)
    every_record_is_in_one_place(spark, waiting)

    shop = Shop(waiting, spark, ONE_BY_ONE)
    before = shop.served()
    number = shop.resumed(shop.begun("kafka").generation).generation
    assert shop.served() == before
    against = shop.proof(number)["against"]["what is served"]
    assert {reason for each in against.values() for reason in each["by_reason"]} == {"late"}
    killed_at("after ops.generations", "replay", "promote", str(number))
    assert shop.served() == shop.content(number) != before
    shop.goes_on(next_day.end)
