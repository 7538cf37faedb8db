"""History that is computed and history that is streamed: equal tables, also after both have gone on."""

from itertools import pairwise
from pathlib import Path

import pytest
from aging import age
from gold import ANSWERS, differences, followers, records_of
from handmade import Lake
from pyspark.sql import SparkSession

from config.declarations import table_named
from config.errors import LakehouseError
from config.settings import Settings
from expectations.parity.rows import content_hash
from lake.tables import read
from local.simulator.plan import Plan
from replay import manifest
from replay.manifest import Mode, Replay
from replay.run import run
from streaming.job import job_named, jobs
from streaming.rebuild import rebuild
from streaming.runner import Runner

PLAN = Plan(seed=23, events=4_000, late=0.03, duplicates=0.03, malformed=0.01)


@pytest.fixture
def own(spark: SparkSession, settings: Settings, tmp_path: Path) -> Lake:
    """An empty lake; that of the folder has been replayed already."""
    return Lake(spark, settings.at(tmp_path))


@pytest.mark.slow
def test_both_give_equal_tables_and_go_on_to_equal_tables(own: Lake) -> None:
    records = records_of(PLAN)
    cuts = [len(records) * part // 8 for part in (0, 2, 4, 5, 7, 8)]
    for low, high in pairwise(cuts[:3]):
        own.land(records[low:high])
    modes: tuple[Mode, ...] = ("bounded", "stream")
    built = {mode: replayed(own, mode) for mode in modes}
    assert contents(own, built["bounded"]) == contents(own, built["stream"])
    for low, high in pairwise(cuts[2:]):
        own.land(records[low:high])
        for mode, replay in built.items():
            runner = Runner(own.settings, own.spark, replay.target, from_first=mode == "stream")
            runner.run(followers(), until_caught_up=True)
        assert contents(own, built["bounded"]) == contents(own, built["stream"])


@pytest.mark.slow
def test_aged_tables_are_reset_and_replayed_from_the_archive(own: Lake) -> None:
    records = records_of(PLAN)
    half = len(records) // 2
    own.land(records[: half // 2])
    Runner(own.settings, own.spark, from_first=True).run(followers(), until_caught_up=True)
    own.land(records[half // 2 : half])
    age(own.settings)

    # Every job was stopped for longer than the log is kept: what it has not read is found in the table alone.
    sessions = job_named("sessions")
    with pytest.raises(LakehouseError, match="no longer has the commits") as stopped:
        Runner(own.settings, own.spark).run([sessions], until_caught_up=True)
    assert "lakehouse stream reset sessions" in stopped.value.hint
    for job in followers():
        if "silver.clicks_enriched" not in job.reads:  # a reset includes the jobs downstream
            rebuild(own.spark, own.settings, job)
    built = run(own.spark, own.settings, manifest.new(own.settings, list(jobs().values()), "bronze", "earliest"))
    assert contents(own, built).keys() == set(ANSWERS)
    own.land(records[half:])
    Runner(own.settings, own.spark).run(followers(), until_caught_up=True)
    assert differences(own, records) == {}


def replayed(lake: Lake, mode: Mode) -> Replay:
    """Rebuild every table that a job computes from tables."""
    return run(lake.spark, lake.settings, manifest.new(lake.settings, followers(), "kafka", "earliest", mode))


def contents(lake: Lake, replay: Replay) -> dict[str, str]:
    """Return the content of every table of a replay that a job computes from tables."""
    number = replay.generation
    return {name: content_hash(read(lake.spark, name, lake.settings, number), table_named(name)) for name in ANSWERS}
