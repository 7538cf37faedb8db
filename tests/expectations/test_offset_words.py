"""Words of 64 offsets: every way to be wrong shows in them, and entries are counted without comparing all pairs."""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from config.settings import Settings
from expectations.ledger_snapshot import LedgerSnapshot
from expectations.offset_words import FOLLOWED, is_wrong, misplaced, pairs, per_entry, per_partition, words

PLACE = ("clicks", 0)
SOUND = {"log": range(60, 200), "bronze": range(200), "silver": range(150), "late": range(150, 200)}


def snapshot(settings: Settings, *, starts: int = 60, end: int = 190) -> LedgerSnapshot:
    """A partition of which Kafka has deleted the first offsets; the last ones are of an unfinished batch."""
    return LedgerSnapshot(settings, 1, [], [], {PLACE: end}, {PLACE: starts}, {PLACE: 200}, {}, {})


def found(spark: SparkSession, found_in: Mapping[str, Iterable[int]]) -> list[DataFrame]:
    rows = [(*PLACE, offset, term) for term, offsets in found_in.items() for offset in offsets]
    return [spark.createDataFrame(rows, "topic string, partition int, offset bigint, found_in string")]


@pytest.mark.parametrize(
    ("change", "origin", "found_in"),
    [
        ({}, None, None),
        ({"log": [*range(60, 70), *range(71, 200)]}, 70, {"bronze": 1, "silver": 1}),
        ({"bronze": [*range(63), *range(64, 200)]}, 63, {"log": 1, "silver": 1}),
        ({"bronze": [*range(200), 128]}, 128, {"log": 1, "bronze": 2, "silver": 1}),
        ({"silver": range(149)}, 149, {"log": 1, "bronze": 1}),
        ({"silver": [*range(150), 0]}, 0, {"bronze": 1, "silver": 2}),
        ({"duplicates": [189]}, 189, {"log": 1, "bronze": 1, "late": 1, "duplicates": 1}),
        ({"duplicates": [190], "silver": [*range(150), 191, 191]}, None, None),  # of the unfinished batch
    ],
)
def test_every_way_to_be_wrong_is_seen_and_named(
    spark: SparkSession, fresh_home: Settings, change: dict[str, Any], origin: int | None, found_in: Any
) -> None:
    frames = found(spark, SOUND | change)
    wrong = words(snapshot(fresh_home), frames, {}).filter(is_wrong())
    named = [(name, {term: n for term, n in at.items() if n}) for name, at in misplaced(frames, wrong)]
    assert named == ([] if origin is None else [(f"clicks/0/{origin}", found_in)])


def test_only_words_from_an_offset_on_are_followed(spark: SparkSession, fresh_home: Settings) -> None:
    since = {PLACE: 128}
    rest = words(snapshot(fresh_home), found(spark, SOUND), since)
    sums = per_partition(rest, {PLACE: 128})[PLACE]
    assert (sums["bronze"], sums["bronze_rows"], sums["bronze_settled"], sums["wrong"]) == (62, 72, 0, 0)
    whole = per_partition(words(snapshot(fresh_home), found(spark, SOUND), {}), since)[PLACE]
    assert (whole["bronze"], whole["bronze_rows"], whole["bronze_settled"]) == (190, 200, 128)
    assert {term for term in FOLLOWED if whole[term]} == {"log", "bronze", "silver", "late"}


def test_entries_of_any_size_are_counted_and_few_pairs_are_compared(spark: SparkSession, fresh_home: Settings) -> None:
    cuts = [0, 1, 2, 3, 5, 64, 128, 129, 3_000, *range(3_001, 3_300), 20_000]
    entries = [
        {"topic": "clicks", "partition": 0, "from_offset": low, "to_offset": high} for low, high in pairwise(cuts)
    ]
    of_log = words(
        snapshot(fresh_home, starts=0, end=20_000),
        found(spark, {"bronze": range(20_000), "silver": range(0, 20_000, 2), "late": range(1, 20_000, 2)}),
        {},
    ).persist()
    counted = per_entry(of_log, entries)
    sizes = [row["to_offset"] - row["from_offset"] for row in entries]
    assert [row["bronze"] for row in counted] == sizes
    evens = [len(range(row["from_offset"] + row["from_offset"] % 2, row["to_offset"], 2)) for row in entries]
    assert [row["silver"] for row in counted] == evens
    assert pairs(of_log, entries).count() <= 3 * of_log.count() + 2 * len(entries)
    of_log.unpersist()
