"""History that is computed and history that is streamed: equal tables, also after both have gone on."""

from itertools import pairwise

import pytest
from aging import age
from gold import ANSWERS, differences, followers, records_of
from handmade import Lake

from config.declarations import table_named
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


@pytest.mark.slow
def test_both_give_equal_tables_and_go_on_to_equal_tables(lake: Lake) -> None:
    records = records_of(PLAN)
    cuts = [len(records) * part // 8 for part in (0, 2, 4, 5, 7, 8)]
    for low, high in pairwise(cuts[:3]):
        lake.land(records[low:high])
    built = {mode: replayed(lake, mode) for mode in ("bounded", "stream")}
    assert contents(lake, built["bounded"]) == contents(lake, built["stream"])
    for low, high in pairwise(cuts[2:]):
        lake.land(records[low:high])
        for mode, replay in built.items():
            runner = Runner(lake.settings, lake.spark, replay.target, from_first=mode == "stream")
            runner.run(followers(), until_caught_up=True)
        assert contents(lake, built["bounded"]) == contents(lake, built["stream"])


@pytest.mark.slow
def test_aged_tables_are_reset_and_replayed_from_the_archive(lake: Lake) -> None:
    records = records_of(PLAN)
    for low, high in pairwise([0, len(records) // 3, len(records) // 2]):
        lake.land(records[low:high])
    runner = Runner(lake.settings, lake.spark, from_first=True)
    runner.run(followers(), until_caught_up=True)
    age(lake.settings)
    names = rebuild(lake.spark, lake.settings, job_named("clicks_enriched"))
    assert "gold.trending" in names
    built = run(lake.spark, lake.settings, manifest.new(lake.settings, list(jobs().values()), "bronze", "earliest"))
    assert contents(lake, built).keys() == set(ANSWERS)
    # The served jobs go on; those that were reset on their new tables.
    lake.land(records[len(records) // 2 :])
    Runner(lake.settings, lake.spark).run(followers(), until_caught_up=True)
    untouched = [name for name in ANSWERS if name not in names]
    assert differences(lake, records, untouched) == {}


def replayed(lake: Lake, mode: Mode) -> Replay:
    """Rebuild every table that a job computes from tables."""
    return run(lake.spark, lake.settings, manifest.new(lake.settings, followers(), "kafka", "earliest", mode))


def contents(lake: Lake, replay: Replay) -> dict[str, str]:
    """Return the content of every table of a replay that a job computes from tables."""
    number = replay.generation
    return {name: content_hash(read(lake.spark, name, lake.settings, number), table_named(name)) for name in ANSWERS}
