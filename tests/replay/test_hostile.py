"""A hostile log through stream, batch layer and replay: all equal the oracle, and each other."""

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from gold import ANSWERS, catch_up, differences
from handmade import Lake
from hostile import hostile
from oracle import Oracle, from_rows
from pyspark.sql import SparkSession
from recomputed import published_differences, recompute

from config.declarations import landed_tables
from config.settings import Settings
from expectations.parity.comparison import comparable_tables
from lake.tables import read
from replay import certificate, manifest
from replay.manifest import Replay
from replay.run import run
from streaming.job import jobs
from streaming.windows.closing import close

LANDED = (*(table.name for table in landed_tables()), "silver.late", "silver.duplicates", "silver.quarantine")


@pytest.fixture
def lake(spark: SparkSession, fresh_home: Settings) -> Lake:
    """Empty tables, not those that the other tests of this folder share."""
    return Lake(spark, fresh_home)


def replayed(lake: Lake) -> Replay:
    """Replay the archive, and finalize what is open at its end."""
    built = run(lake.spark, lake.settings, manifest.new(lake.settings, list(jobs().values()), "bronze", "earliest"))
    for job in jobs().values():
        if job.reads:
            close(job, lake.settings, lake.spark, built.target)
    return built


def replay_differences(lake: Lake, built: Replay, records: list[tuple[Any, ...]]) -> dict[str, Any]:
    """Compare a replay with the oracle for which no event is late: by table, missing rows and rows too many."""
    oracle = Oracle(from_rows([(*record[:5], record[6]) for record in records]))
    found = {}
    for name in (name for name in built.tables if name != "silver.late"):
        wanted = oracle.table(name, late_counts=False)
        rows = read(lake.spark, name, lake.settings, built.generation)
        columns = [column for column in wanted.column_names if column in rows.columns]
        asked = Counter(map(repr, wanted.select(columns).to_pylist()))
        there = Counter(map(repr, rows.select(*columns).toArrow().cast(wanted.select(columns).schema).to_pylist()))
        if asked != there:
            found[name] = (sorted((asked - there).elements())[:2], sorted((there - asked).elements())[:2])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("size", [200_000])
def test_odd_values_ties_and_edges_are_the_same_everywhere(lake: Lake, size: int) -> None:
    records = hostile(size)
    for low, high in pairwise([0, len(records) // 2, len(records) * 3 // 4, len(records)]):
        lake.land(records[low:high])
        catch_up(lake)
        result = recompute(lake)
        assert result.publication, [(each.table, each.rule, each.sample) for each in result.audit.failures]
    assert differences(lake, records, (*LANDED, *ANSWERS)) == {}
    assert published_differences(lake, records) == {}
    built = replayed(lake)
    assert replay_differences(lake, built, records) == {}
    proof = certificate.verify(lake.spark, lake.settings, built, lambda _: None)
    assert proof.unexplained == 0
    assert {name: each["by_reason"] for name, each in proof.values["against"]["the batch layer"].items()} == {
        table.name: {} for table in comparable_tables()
    }
