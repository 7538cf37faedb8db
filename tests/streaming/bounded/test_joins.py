"""Bounded joins: the tier of each click, whether the users are broadcast or shuffled."""

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from config.declarations import table_named
from streaming.bounded import joins, recompute
from streaming.job import job_named
from streaming.roles.enricher import attach_tier

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> dict[str, DataFrame]:
    """Make clicks before, at and after changes of a user, and of a user whom nobody knows."""
    clicked = [("u", NOON + step * HOUR) for step in range(-1, 4)] + [("stranger", NOON)]
    clicks = table_named("silver.clicks")
    rows = spark.createDataFrame(clicked, "user_id string, event_time timestamp").withColumn(
        "event_id", F.expr("uuid()")
    )
    missing = {
        name: F.lit(None).cast(column.type) for name, column in clicks.stored.items() if name not in rows.columns
    }
    changes = [
        ("u", "c0", "c", "basic", NOON),
        ("u", "c1", "u", "silver", NOON + HOUR),
        ("u", "c2", "u", "gold", NOON + HOUR),  # at the same time: the version before holds for no moment
        ("u", "c3", "d", "gold", NOON + 3 * HOUR),
    ]
    ddl = "user_id string, event_id string, op string, tier string, valid_from timestamp"
    users = spark.createDataFrame(changes, ddl).withColumn(
        "valid_to", F.expr("lead(valid_from) over (partition by user_id order by valid_from, event_id)")
    )
    return {"silver.clicks": rows.withColumns(missing).localCheckpoint(), "silver.users": users.localCheckpoint()}


@pytest.mark.parametrize("limit", [joins.BROADCAST_BYTES, -1], ids=["broadcast", "shuffled"])
def test_each_click_has_the_tier_of_its_time(
    tables: dict[str, DataFrame], limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joins, "BROADCAST_BYTES", limit)
    found = recompute(job_named("clicks_enriched"), tables)
    assert sorted(map(repr, found.collect())) == sorted(map(repr, attach_tier(*tables.values()).collect()))
    tiers = {(row.user_id, row.event_time.replace(tzinfo=UTC)): row.tier for row in found.collect()}
    assert [tiers["u", NOON + step * HOUR] for step in range(-1, 4)] == ["unknown", "basic", "gold", "gold", "unknown"]
    assert tiers["stranger", NOON] == "unknown"
    assert found.count() == 6


def test_few_users_are_broadcast_and_many_are_not(spark: SparkSession) -> None:
    assert joins.size(spark.range(10).select(F.col("id").cast("string"))) <= joins.BROADCAST_BYTES
    assert joins.size(spark.range(10**9)) > joins.BROADCAST_BYTES
