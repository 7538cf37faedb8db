"""However the log was cut into partitions, and in whatever order it came, a replay of it gives the same gold."""

import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any
from zlib import crc32

import pytest
from gold import configured, records_of
from handmade import Lake
from pyspark.sql import SparkSession

from config.declarations import table_named
from config.settings import Settings
from expectations.parity.rows import content_hash
from lake.tables import read
from local.simulator.plan import Plan
from replay import manifest
from replay.run import run
from streaming.job import job_named, jobs

SOME = ("landing", "clicks_enriched", "views_per_minute", "sessions", "order_payments")


def cut(records: list[tuple[Any, ...]], partitions: int) -> list[tuple[Any, ...]]:
    """Shuffle records, and lay them into as many partitions of each topic by their keys."""
    ends: dict[tuple[str, int], int] = {}
    found: list[tuple[Any, ...]] = []
    for topic, _, _, key, *rest in random.Random(partitions).sample(records, len(records)):
        place = (topic, crc32(key) % partitions)
        found.append((*place, ends.get(place, 0), key, *rest))
        ends[place] = found[-1][2] + 1
    return found


def replayed(lake: Lake, records: list[tuple[Any, ...]], names: Sequence[str]) -> dict[str, str]:
    """Land records in three pieces, replay the archive in as many, and return the content of every gold table."""
    configured(lake, records_per_batch=150)
    for low, high in pairwise([0, len(records) // 3, len(records) // 2, len(records)]):
        lake.land(records[low:high])
    todo = manifest.new(lake.settings, [job_named(name) for name in names], "bronze", "earliest")
    built = run(lake.spark, lake.settings, todo)
    tables = [table_named(name) for name in built.tables if name.startswith("gold.")]
    return {
        table.name: content_hash(read(lake.spark, table.name, lake.settings, built.generation), table)
        for table in tables
    }


@pytest.mark.parametrize(
    ("names", "partitions"),
    [(SOME, (1, 8)), pytest.param(tuple(jobs()), (1, 4, 8), marks=pytest.mark.slow)],
    ids=["some", "all"],
)
def test_any_number_of_partitions_in_any_order_gives_equal_gold(
    spark: SparkSession,
    settings: Settings,
    tmp_path_factory: pytest.TempPathFactory,
    names: tuple[str, ...],
    partitions: tuple[int, ...],
) -> None:
    # None with an id used twice: which of the two came first is then the very question.
    records = records_of(Plan(seed=41, events=1_200, late=0.05, duplicates=0.05, malformed=0))
    found = {
        count: replayed(Lake(spark, settings.at(tmp_path_factory.mktemp("cut"))), cut(records, count), names)
        for count in partitions
    }
    assert set(found[1]) == {name for each in names for name in job_named(each).writes if name.startswith("gold.")}
    assert [found[count] for count in partitions] == [found[1]] * len(partitions)
