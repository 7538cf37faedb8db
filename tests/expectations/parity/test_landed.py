"""Landed records: one that both sides have read has the same outcome on both, or a reason; a lost one has none."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from handmade import NOON, RECORD
from pyspark.sql import DataFrame, SparkSession

from config.declarations import table_named
from config.settings import Settings
from expectations.parity import landed, revalidated
from expectations.parity.reasons import DUPLICATE, LATE, UNEXPLAINED, Explained
from expectations.parity.sides import Side
from lake.tables import create_missing
from streaming.landing.write import SIDE_TABLES

CLICKS = table_named("silver.clicks")
Compare = Callable[..., Explained]
Sides = Callable[..., Side]
Records = dict[int, str]
"""By offset, `silver`, or the table in which a record was set aside."""

ARRIVED = {"silver.late": timedelta(minutes=11)}
"""By table, how long after their events its records arrived, if not at once."""


@pytest.fixture
def compare_landed(fresh_home: Settings, monkeypatch: pytest.MonkeyPatch) -> Compare:
    """Compare with an empty archive and an empty log: no record that was received can be read again."""
    create_missing(["bronze.events"], fresh_home)
    monkeypatch.setattr(revalidated, "between", lambda spark, *_: spark.createDataFrame([], RECORD))
    return partial(landed.compare_landed, settings=fresh_home)


@pytest.fixture
def side(spark: SparkSession) -> Sides:
    def side(*records: Records, low: int = 0, high: int = 100, views: int = 1) -> Side:
        """Make a side that has read the offsets from low to high; its records, some of them several times."""

        def frame(name: str) -> DataFrame:
            table = table_named(name)
            outcome = SIDE_TABLES.get(name, "silver")
            rows = [at for each in records for at, found in each.items() if found == outcome]
            return spark.createDataFrame([row(table, at, views) for at in rows], table.ddl)

        ranges = {("clicks", 0): (low, high)}
        return Side("made", frame, frozenset({CLICKS.name, *SIDE_TABLES}), lambda _: None, ranges)

    return side


def row(table: Any, offset: int, dwell_ms: int) -> tuple[Any, ...]:
    known = {"event_id": f"e{offset}", "offset": offset, "partition": 0, "topic": "clicks", "dwell_ms": dwell_ms}
    known |= {"event_time": NOON + timedelta(seconds=offset)}
    known |= {"arrival_time": NOON + timedelta(seconds=offset) + ARRIVED.get(table.name, timedelta(0))}
    if table.name == "silver.duplicates":
        known |= {"event_id": "e3", "duplicate_of": (0, 3)}
    return tuple(known.get(name) for name in table.stored)


def reasons(found: Explained) -> dict[int, str]:
    return {each.offset: each.reason for each in found.rows.collect()} if found.by_reason else {}


SILVER = dict.fromkeys(range(4), "silver")


def test_what_was_set_aside_on_one_side_has_its_reason(side: Sides, compare_landed: Compare) -> None:
    other = {0: "late", 1: "silver", 2: "duplicates", 3: "silver"}
    for left, right in ((SILVER, other), (other, SILVER)):
        found = compare_landed(side(left), side(right), CLICKS)
        assert reasons(found) == {0: LATE, 2: DUPLICATE}
        assert found.parity.equal == 2


def test_a_record_that_one_side_lost_has_no_reason(side: Sides, compare_landed: Compare) -> None:
    for outcome in ("silver", *SIDE_TABLES.values()):
        whole = SILVER | {2: outcome}
        lacking = {at: found for at, found in whole.items() if at != 2}
        assert reasons(compare_landed(side(whole), side(lacking), CLICKS)) == {2: UNEXPLAINED}, outcome
        assert reasons(compare_landed(side(lacking), side(whole), CLICKS)) == {2: UNEXPLAINED}, outcome


def test_only_what_both_sides_have_read_is_compared(side: Sides, compare_landed: Compare) -> None:
    from_one = dict.fromkeys((1, 2, 3), "silver")
    assert reasons(compare_landed(side(SILVER), side(from_one, low=1), CLICKS)) == {}
    assert reasons(compare_landed(side(SILVER), side(from_one, low=0), CLICKS)) == {0: UNEXPLAINED}
    to_three = dict.fromkeys((0, 1, 2), "silver")
    assert reasons(compare_landed(side(to_three, high=3), side(SILVER), CLICKS)) == {}
    assert reasons(compare_landed(side(to_three, high=4), side(SILVER), CLICKS)) == {3: UNEXPLAINED}


def test_a_record_with_other_content_or_two_outcomes_has_no_reason(side: Sides, compare_landed: Compare) -> None:
    assert set(reasons(compare_landed(side(SILVER), side(SILVER, views=2), CLICKS)).values()) == {UNEXPLAINED}
    assert reasons(compare_landed(side(SILVER), side(SILVER, {1: "silver"}), CLICKS)) == {1: UNEXPLAINED}
    assert reasons(compare_landed(side(SILVER), side(SILVER, {1: "late"}), CLICKS)) == {1: UNEXPLAINED}


def test_a_duplicate_without_its_first_copy_has_no_reason(side: Sides, compare_landed: Compare) -> None:
    for first, reason in (("late", DUPLICATE), ("quarantined", UNEXPLAINED)):
        other = SILVER | {2: "duplicates", 3: first}
        assert reasons(compare_landed(side(SILVER), side(other), CLICKS))[2] == reason
    lost = dict.fromkeys((0, 1), "silver") | {2: "duplicates"}
    for left, right in ((SILVER, lost), (lost, SILVER)):
        assert reasons(compare_landed(side(left), side(right), CLICKS)) == {2: UNEXPLAINED, 3: UNEXPLAINED}


def test_the_first_copy_may_lie_before_what_both_sides_have_read(side: Sides, compare_landed: Compare) -> None:
    whole = {0: "silver", 3: "silver"}
    other = {3: "silver", 5: "duplicates"}
    assert reasons(compare_landed(side(whole | {5: "silver"}, low=4), side(other), CLICKS)) == {5: DUPLICATE}


def test_a_late_record_that_arrived_in_time_has_no_reason(
    side: Sides, compare_landed: Compare, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = SILVER | {1: "late"}
    monkeypatch.setitem(ARRIVED, "silver.late", timedelta(minutes=10))
    assert reasons(compare_landed(side(SILVER), side(late), CLICKS)) == {1: UNEXPLAINED}
    assert reasons(compare_landed(side(late), side(SILVER), CLICKS)) == {1: UNEXPLAINED}
