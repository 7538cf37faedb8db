"""The batch layer: complete, equal to the oracle with nothing late, however it came about."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from gold import records_of
from handmade import Lake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from recomputed import published_differences, recompute

from batch import fence, publications, segments
from batch import records as records_module
from batch.records import landed
from config.declarations import tables
from config.errors import LakehouseError
from config.settings import Settings
from config.terminal import Terminal
from lake.costs import recorded_costs
from local.simulator.plan import Plan
from streaming.bounded import OVERRIDES, trending
from streaming.landing.contract import Contract

TABLES = [name for name in tables() if name.startswith(("silver.", "gold.")) and name != "silver.late"]


def plan(seed: int, events: int = 2_000, days: int = 1) -> Plan:
    return Plan(seed=seed, events=events, late=0.05, duplicates=0.03, malformed=0.01, days=days)


def another_trending(tables: Mapping[str, DataFrame]) -> DataFrame:
    return trending(tables)


@dataclass(frozen=True)
class Days:
    """Four days, landed and recomputed in two steps."""

    lake: Lake
    records: list[tuple[Any, ...]]
    first: int
    """How many records had landed before the first run."""

    runs: list[tuple[Any, dict[str, Any]]]
    """What each run came to, and where it differs from the oracle."""


@pytest.fixture(scope="module")
def days(spark: SparkSession, settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Days:
    """Run the batch layer on most of the records, then on all."""
    lake = Lake(spark, settings.at(tmp_path_factory.mktemp("days")))
    records = records_of(plan(22, 2_000, days=4))
    cuts = [0, len(records) * 7 // 8, len(records)]
    runs = []
    for low, high in pairwise(cuts):
        lake.land(records[low:high])
        result = recompute(lake)
        assert result.publication, result.audit.failures
        runs.append((result, published_differences(lake, records[:high])))
    return Days(lake, records, cuts[1], runs)


def test_it_equals_the_oracle_with_nothing_late(days: Days) -> None:
    (whole, differing), _ = days.runs
    assert whole.full
    assert set(whole.publication.tables) == set(TABLES)
    assert differing == {}


def test_in_steps_it_equals_the_oracle_and_computes_only_what_changed(
    days: Days, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = days.lake
    step, differing = days.runs[-1]
    assert differing == {}
    assert not step.full
    assert 0 < step.changed["gold.views_per_minute"] < len(step.publication.tables["gold.views_per_minute"])
    costs = [(row["whole"], row["records"]) for row in recorded_costs(lake.settings)]
    assert costs[:2] == [(True, days.first), (False, len(days.records) - days.first)]
    again = recompute(lake)
    assert again.changed == {}
    # Other code of one table: it alone is computed again, and whole.
    monkeypatch.setitem(OVERRIDES, "trending", another_trending)
    changed = recompute(lake)
    assert not changed.full
    assert changed.changed == {"gold.trending": len(step.publication.tables["gold.trending"])}
    assert recompute(lake).changed == {}


def test_a_bad_day_is_not_published_and_readers_go_on_seeing_the_day_before(
    days: Days, console: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, last = days.lake, publications.served(days.lake.settings)
    assert last

    # As if a mistake in the code had lost an hour, and let negative prices and copies through: landing never would.
    def careless(records: DataFrame, aside: DataFrame, contract: Contract) -> DataFrame:
        rows = landed(records, aside, contract)
        if contract.topic.name == "clicks":  # every event of the day within three hours, and of these one without any
            hour = F.expr("date_trunc('day', event_time) + make_dt_interval(0, 2 * (hour(event_time) % 2))")
            return rows.withColumn("event_time", hour)
        if contract.topic.name != "payments":
            return rows
        return rows.withColumn("amount_cents", F.lit(-5)).unionByName(rows.limit(1))

    monkeypatch.setattr(records_module, "landed", careless)
    bad = recompute(lake, full=True)
    assert bad.publication is None
    broken = {(each.table, each.rule) for each in bad.audit.failures}
    assert {("silver.payments", "amount_not_negative"), ("silver.payments", "key_unique")} <= broken
    assert ("silver.clicks", "no_hour_missing") in broken
    bad.audit.show(console)
    assert "An amount is not negative." in console.export_text()
    served = publications.served(lake.settings)
    assert served and served.run == last.run
    # Going back to what was never published is refused; publishing what is served again changes nothing but its number.
    with pytest.raises(LakehouseError, match="was never published"):
        publications.publish_again(lake.settings, bad.run)
    again = publications.publish_again(lake.settings, last.run)
    assert (again.number, again.tables) == (last.number + 1, last.tables)
    # The way out: without the mistake the next run passes, and what the refused one wrote is not read.
    monkeypatch.undo()
    assert recompute(lake, full=True).publication
    assert published_differences(lake, days.records) == {}


def test_killed_anywhere_a_rerun_gives_the_same_tables(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nobody has paid yet, and one partition of clicks got nothing: there the fence has no offset.
    records = [r for r in records_of(plan(24, 600)) if r[0] != "payments" and r[:2] != ("clicks", 1)]
    lake.land(records)
    places = ["after batch parsed", "after batch gold.sessions"]

    def die(place: str) -> None:
        if places and place == places[0]:
            places.pop(0)
            raise OSError(place)

    for module in (records_module, segments, fence):
        monkeypatch.setattr(module, "failpoint", die)
    for _ in range(len(places)):
        with pytest.raises(OSError, match="after"):
            recompute(lake)
        assert publications.served(lake.settings) is None
    done = recompute(lake)
    assert done.publication
    assert ("clicks", 0) in done.fence.offsets
    assert not {("clicks", 1), ("payments", 0)} & set(done.fence.offsets)
    assert published_differences(lake, records) == {}
