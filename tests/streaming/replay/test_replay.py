"""Replay: history made anew equals the batch layer, is invisible until promoted, and every difference has a reason."""

from collections import Counter
from typing import Any

import deltalake
import pytest
from gold import catch_up, records_of
from handmade import Lake
from pyspark.sql import SparkSession

from batch.run import run as run_batch  # feature: batch
from config.declarations import table_named
from config.errors import LakehouseError
from config.settings import Settings
from expectations.parity.comparison import batch_side, comparable_tables, compared, generation_side
from local.simulator.plan import Plan
from operations.demo.logic import job as longer_than_a_second
from operations.views import views
from streaming.job import jobs
from streaming.replay import certificate, manifest
from streaming.replay import run as running
from streaming.replay.manifest import Replay
from streaming.replay.promotion import promote, rollback
from streaming.tables import read

EVERY = list(jobs().values())
VIEWS = "gold.views_per_minute"


def nothing(*_: Any) -> None:
    """Watch nothing."""


@pytest.fixture(scope="module")
def lake(spark: SparkSession, settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A day that was landed in two batches, followed by every job, and recomputed by the batch layer."""
    lake = Lake(spark, settings.at(tmp_path_factory.mktemp("replay")))
    records = records_of(Plan(seed=31, events=1_500, late=0.04, duplicates=0.03, malformed=0.01))
    half = len(records) // 2
    lake.land(records[:half])
    lake.land(records[half:])
    catch_up(lake)
    assert run_batch(spark, lake.settings, full=True, watch=nothing).publication  # feature: batch
    return lake


@pytest.fixture(scope="module")
def built(lake: Lake) -> Replay:
    """All of it replayed from the archive, broken off at every step that can be lost, and resumed."""
    todo = manifest.new(lake.settings, EVERY, "bronze", "earliest")
    broken_off: list[str] = []

    def die_once(place: str) -> None:
        if place not in broken_off:
            broken_off.append(place)
            raise OSError(place)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "failpoint", die_once)
        for _ in range(2):
            with pytest.raises(OSError, match="after replay"):
                running.run(lake.spark, lake.settings, todo)
            todo = manifest.replay_of(lake.settings, 2)
        done = running.run(lake.spark, lake.settings, todo)
    assert broken_off == ["after replay manifest", "after replay run"]
    return done


@pytest.fixture(scope="module")
def against(lake: Lake, built: Replay) -> dict[str, Any]:
    """What its certificate says."""
    found: dict[str, Any] = certificate.verify(lake.spark, lake.settings, built, nothing).values["against"]
    return found


def served(lake: Lake, name: str) -> Counter[str]:
    """Read a table as readers do: by its view, which asks the pointer."""
    return Counter(map(repr, lake.spark.sql(views(lake.settings)[name]).collect()))


def generation(lake: Lake, name: str, number: int) -> Counter[str]:
    return Counter(map(repr, read(lake.spark, name, lake.settings.warehouse, number).collect()))


# feature: batch
def test_it_equals_the_batch_layer_row_by_row(against: dict[str, Any]) -> None:
    found = against["the batch layer"]
    assert set(found) == {table.name for table in comparable_tables()}
    assert {name: each["by_reason"] for name, each in found.items() if each["by_reason"]} == {}
    assert all(each["equal"] and each["hash"] == each["hash_of_other"] for each in found.values())


# end of feature: batch


def test_it_differs_from_what_is_served_by_late_events_alone(against: dict[str, Any]) -> None:
    found = against["what is served"]
    assert {reason for each in found.values() for reason in each["by_reason"]} == {"late"}
    assert sum(each["by_reason"].get("late", 0) for each in found.values()) > 10


def test_nobody_sees_it_before_it_is_promoted_and_all_do_after(lake: Lake, built: Replay) -> None:
    names = [VIEWS, "gold.sessions", "silver.clicks"]
    before = {name: generation(lake, name, 1) for name in names}
    assert {name: served(lake, name) for name in names} == before
    certificate.verify(lake.spark, lake.settings, built, nothing)
    with pytest.MonkeyPatch.context() as patch:
        # Its landing would go on with Kafka, which this lake has none of.
        patch.setattr("streaming.replay.promotion.reset", nothing)
        assert promote(lake.spark, lake.settings, built, None, nothing).passed
    assert {name: served(lake, name) for name in names} == {name: generation(lake, name, 2) for name in names}
    with pytest.raises(LakehouseError, match="is served"):
        manifest.drop(lake.settings, built)
    assert set(rollback(lake.settings).values()) == {1}
    assert {name: served(lake, name) for name in names} == before


def test_a_change_of_logic_is_told_from_everything_else(lake: Lake) -> None:
    chosen = [longer_than_a_second()]
    todo = manifest.new(lake.settings, chosen, "kafka", "earliest")
    assert todo.tables == [VIEWS]
    done = running.run(lake.spark, lake.settings, todo, jobs=chosen)
    found = certificate.verify(lake.spark, lake.settings, done, nothing, chosen).values["against"]
    reasons = found["what is served"][VIEWS]["by_reason"]
    assert reasons and set(reasons) == {"changed logic"}
    manifest.drop(lake.settings, done)
    assert not table_named(VIEWS).path(lake.settings.warehouse, done.generation).exists()


# feature: batch
def test_a_wrong_row_in_any_table_is_found_without_a_reason(lake: Lake, built: Replay) -> None:
    changes = {
        VIEWS: "views",
        "gold.trending": "views",
        "gold.revenue_per_hour": "revenue_cents",
        "gold.sessions": "pages",
        "gold.order_payments": "amount_cents",
        "gold.conversions": "amount_cents",
        "gold.order_status": "changes",
    }
    for name, column in changes.items():
        _spoil(lake, name, built.generation, {column: f"{column} + 1000"})
    _spoil(lake, "gold.ad_clicks", built.generation, {"product_id": "'nobody made it'"})
    left = batch_side(lake.spark, lake.settings)
    assert left
    right = generation_side(lake.spark, lake.settings, built.build, "replayed")
    found = compared(lake.spark, lake.settings, left, right)
    assert {name: each.by_reason for name, each in found.items()} == {
        table.name: {"unexplained": 1} for table in comparable_tables()
    }


def _spoil(lake: Lake, name: str, number: int, updates: dict[str, str]) -> None:
    """Change one row that is long final."""
    table = table_named(name)
    first = read(lake.spark, name, lake.settings.warehouse, number).orderBy(table.final_at or "status_time").first()
    assert first
    path = str(table.path(lake.settings.warehouse, number))
    changed = deltalake.DeltaTable(path).update(updates=updates, predicate=_exact(table.key, first))
    assert changed["num_updated_rows"] == 1


def _exact(key: list[str], row: Any) -> str:
    parts = []
    for name in key:
        value = row[name]
        literal = f"to_timestamp('{value.isoformat()}Z')" if hasattr(value, "isoformat") else repr(value)
        parts.append(f"{name} = {literal}")
    return " and ".join(parts)


# end of feature: batch
