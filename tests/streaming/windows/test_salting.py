"""Salting: a hot key spread over groups of the state gives the answers that it gives unspread, batch after batch."""

from itertools import pairwise

import pytest
from gold import catch_up, configured, differences, records_of
from handmade import Lake
from pyspark.sql import SparkSession

from config.errors import LakehouseError
from config.settings import Settings
from local.simulator.plan import Plan
from streaming.job import job_named
from streaming.progress import last_progress
from streaming.windows.salting import Salt, as_configured

SALTED = {"views_per_minute": 8, "trending": 5, "revenue_per_hour": 3}


def test_salted_tables_equal_the_oracle_in_several_batches(lake: Lake) -> None:
    records = records_of(Plan(seed=11, events=1_500, late=0.03, duplicates=0.03, hot_key=0.5))
    configured(lake, salted=SALTED, late=dict.fromkeys(("views_per_minute", "revenue_per_hour"), "merge"))
    for low, high in pairwise([0, *(len(records) * part // 3 for part in (1, 2, 3))]):
        lake.land(records[low:high])
        catch_up(lake, ["clicks_enriched", *SALTED])
    assert differences(lake, records, [f"gold.{name}" for name in SALTED], "merge") == {}
    assert _kept(lake, "views_per_minute") % 8 == 0


def test_events_of_one_key_count_in_several_groups(spark: SparkSession) -> None:
    events = spark.range(100).selectExpr("cast(id as string) as event_id", "1 as cents")
    salt = Salt(4)
    groups = salt.spread(events).groupBy(*salt.key).agg(salt.count().alias("n"), salt.sum("cents").alias("cents"))
    found = groups.collect()
    assert len(found) == 4
    assert sum(row.n for row in found) == sum(row.cents for row in found) == 100
    assert all(0 < row.n < 100 for row in found)


def test_state_of_more_groups_is_not_gone_on_with_in_fewer(lake: Lake) -> None:
    records = records_of(Plan(seed=12, events=400))
    lake.land(records)
    configured(lake, salted={"revenue_per_hour": 3})
    catch_up(lake, ["revenue_per_hour"])
    lake.land([(*record[:2], record[2] + 1_000_000, *record[3:]) for record in records_of(Plan(seed=13, events=400))])
    configured(lake, salted={"revenue_per_hour": 2})
    with pytest.raises(LakehouseError, match="another schema"):
        catch_up(lake, ["revenue_per_hour"])


def test_a_job_that_cannot_be_salted_is_refused(fresh_home: Settings) -> None:
    streaming = fresh_home.streaming.model_copy(update={"salted": {"sessions": 4}})
    with pytest.raises(LakehouseError, match=r"'sessions' cannot be salted; these can: .*views_per_minute"):
        as_configured([job_named("sessions")], fresh_home.model_copy(update={"streaming": streaming}))


def _kept(lake: Lake, job: str) -> int:
    progress = last_progress(job, lake.settings, 1)
    assert progress
    return progress.kept_rows
