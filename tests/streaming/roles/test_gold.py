"""Gold: every table equals an oracle that shares nothing with the project, however the events come."""

import time
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from random import Random
from typing import Any, Literal

import pytest
from gold import ANSWERS, catch_up, configured, differences, followers, records_of, rows_of
from handmade import NOON, Lake, Log, click
from pyspark.sql import SparkSession

from config.errors import LakehouseError
from config.settings import Settings
from lake import batch_log, tables
from lake.location import table_location
from lake.tables import read_arrow
from local.simulator.plan import Plan
from operations.trace import trace
from streaming.job import job_named
from streaming.progress import last_progress
from streaming.rebuild import rebuild
from streaming.windows.closing import close


def plan(seed: int, events: int = 3_000) -> Plan:
    return Plan(seed=seed, events=events, late=0.03, duplicates=0.03, malformed=0.01)


@dataclass(frozen=True)
class Third:
    """A lake with the first third of some records in it, landed at once and read by every job."""

    lake: Lake
    records: list[tuple[Any, ...]]
    third: int


@pytest.fixture(scope="module")
def started(spark: SparkSession, settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Third:
    lake = Lake(spark, settings.at(tmp_path_factory.mktemp("gold")))
    records = records_of(plan(6))
    lake.land(records[: len(records) // 3])
    catch_up(lake)
    return Third(lake, records, len(records) // 3)


def test_all_at_once_every_table_equals_the_oracle(started: Third) -> None:
    lake = started.lake
    assert differences(lake, started.records[: started.third]) == {}
    first = min((row for row in lake.rows("silver.clicks") if row.type == "page_view"), key=lambda row: row.event_time)
    details = {step.table: step.detail for step in trace(lake.settings, ("clicks", first.partition, first.offset))}
    assert {"bronze.events", "silver.clicks", "silver.clicks_enriched", "gold.sessions"} <= set(details)
    assert f"window_start {first.event_time:%H:%M}:00" in details["gold.views_per_minute"]


def test_in_pieces_and_broken_off_after_every_commit_they_equal_it_too(
    started: Third, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, records, third = started.lake, started.records, started.third
    broken_off: set[str] = set()

    def die_once(place: str) -> None:
        if place not in broken_off and not place.startswith("after ops.batches"):
            broken_off.add(place)
            raise OSError(place)

    lake.land(records[third : 2 * third])
    with monkeypatch.context() as patch:
        for module in (tables, batch_log):
            patch.setattr(module, "failpoint", die_once)
        # One by one: of several at once, the first that breaks off stops the others at a place nobody chose.
        for job in followers():
            with pytest.raises(LakehouseError, match=f"OSError: after {job.writes[0]}"):
                catch_up(lake, [job.name])
            catch_up(lake, [job.name])
    assert broken_off == {f"after {name}" for name in ANSWERS}
    lake.land(records[2 * third :])
    catch_up(lake)
    assert differences(lake, records) == {}


def test_what_is_open_is_closed_on_request_and_corrected_when_more_comes(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = records_of(plan(8, 1_500))
    most = len(records) - 150
    lake.land(records[:most])
    waiting = ["sessions", "order_payments"]
    catch_up(lake, waiting)
    for name in waiting:
        assert close(job_named(name), lake.settings, lake.spark)
    names = [f"gold.{name}" for name in waiting]
    assert differences(lake, records[:most], names, all_closed=True) == {}
    lake.land(records[most:])
    catch_up(lake, waiting)
    monkeypatch.setattr(time, "time_ns", lambda: 0)  # the clock has stepped back
    for name in waiting:
        close(job_named(name), lake.settings, lake.spark)
    assert differences(lake, records, ["gold.order_payments"], all_closed=True) == {}
    for name in waiting:
        log = read_arrow(batch_log.folder(lake.settings, name, 1), None, ["by_request"])
        assert sum(log["by_request"].to_pylist()) == 2


@pytest.mark.parametrize("strategy", ["count", "merge"])
def test_late_rows_are_counted_or_merged_as_configured(lake: Lake, strategy: Literal["count", "merge"]) -> None:
    late = dict.fromkeys(("views_per_minute", "revenue_per_hour"), strategy)
    configured(lake, late=late)
    records = records_of(plan(7, 1_500))
    for low, high in pairwise([0, len(records) // 2, len(records)]):
        lake.land(records[low:high])
        catch_up(lake, ["clicks_enriched", *late])
    assert differences(lake, records, [f"gold.{name}" for name in late], strategy) == {}


def test_a_row_that_spark_drops_stops_the_job_until_it_is_reset(
    lake: Lake, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = ["clicks_enriched", "views_per_minute"]
    log.send(click("ahead", NOON + timedelta(hours=1)), partition=0)
    log.send(click("behind", NOON), partition=1)  # in time by its own arrival, but read an hour of arrivals later
    lake.land(log.records[:1])
    catch_up(lake, jobs)
    lake.land(log.records[1:])
    catch_up(lake, jobs[:1])
    with monkeypatch.context() as patch:
        patch.setattr(batch_log, "append_once", lambda *_: 1 / 0)
        with pytest.raises(LakehouseError, match="division by zero"):  # it dies before the drop is recorded
            catch_up(lake, jobs[1:])
    for _ in ("found again", "remembered"):
        with pytest.raises(LakehouseError, match=r"Spark dropped 1 rows? .*streaming\.skew_minutes") as stopped:
            catch_up(lake, jobs)
        assert "lakehouse stream reset views_per_minute" in stopped.value.hint
    configured(lake, skew_minutes=60)
    assert rebuild(lake.spark, lake.settings, job_named("views_per_minute")) == ["gold.views_per_minute"]
    catch_up(lake, jobs)
    built = table_location(lake.settings, "gold.views_per_minute", 2).table().to_pyarrow_table(columns=["views"])
    assert sum(built["views"].to_pylist()) == 2


def test_state_is_as_large_as_what_is_open_not_as_history(lake: Lake) -> None:
    records = records_of(Plan(seed=9, events=2_400, days=4))
    users = sum(record[0] == "users" for record in records)
    cuts = [0, *(users + (len(records) - users) * day // 4 for day in range(1, 4)), len(records)]
    kept, rows = [], []
    for low, high in pairwise(cuts):
        lake.land(records[low:high])
        catch_up(lake, ["clicks_enriched", "views_per_minute", "order_payments"])
        progress = [last_progress(name, lake.settings, 1) for name in ("views_per_minute", "order_payments")]
        kept.append(sum(each.kept_rows for each in progress if each))
        rows.append(sum(rows_of(lake.settings, "gold.views_per_minute", ["views"]).values()))
    assert kept[0] > 0
    assert rows[-1] > 3 * rows[0]
    assert max(kept) < 0.5 * rows[0]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_for_any_seed_and_any_batching_they_equal_it(lake: Lake, seed: int) -> None:
    records = records_of(plan(seed, 10_000))
    users = sum(record[0] == "users" for record in records)
    cuts = sorted(Random(seed).sample(range(users, len(records)), 3))
    for low, high in pairwise([0, *cuts, len(records)]):
        lake.land(records[low:high])
        catch_up(lake)
    assert differences(lake, records) == {}
