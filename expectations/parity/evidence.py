"""Evidence: the events that one answer counts and another does not, gathered from the tables where they are kept."""

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from config.declarations import Table, landed_tables, table_named, topics
from config.settings import Settings
from lake.tables import read
from streaming.roles.enricher import TABLE as ENRICHED
from streaming.roles.enricher import attach_tier
from streaming.windows.late import typed_late

Frames = Callable[[str], DataFrame]
USERS = "silver.users"


def late(spark: SparkSession, settings: Settings, generation: int, users: DataFrame) -> dict[str, DataFrame]:
    """Gather the late events of a generation, by the table that they would be in."""
    rows = read(spark, "silver.late", settings, generation)
    # Kept: each is joined several times, and parsing them is most of the work.
    found = {
        table.name: typed_late(rows, str(table.topic)).localCheckpoint()
        for table in landed_tables()
        if _may_be_late(table)
    }
    return found | {ENRICHED: attach_tier(found["silver.clicks"], users)}


def with_another_tier(left: DataFrame, right: DataFrame) -> dict[str, DataFrame]:
    """Gather the clicks whose user's tier one answer did not know yet, in both their forms."""
    pairs = left.alias("l").join(right.alias("r"), "event_id").filter("l.tier != r.tier").select("event_id")
    ids = F.broadcast(pairs.distinct())
    both = left.join(ids, "event_id", "left_semi").unionByName(right.join(ids, "event_id", "left_semi"))
    return {ENRICHED: both.localCheckpoint()}


def only_in_one(left: Frames, right: Frames, aside: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """Gather the events that one answer has and the other neither has nor has set aside as late."""
    found = {}
    for name in (*(table.name for table in landed_tables() if _may_be_late(table)), ENRICHED):
        one, other = left(name), right(name)
        columns = list(table_named(name).stored)
        lone = one.join(other, "event_id", "left_anti").select(*columns)
        lone = lone.unionByName(other.join(one, "event_id", "left_anti").select(*columns))
        known = aside.get(name)
        lone = lone.join(known.select("event_id"), "event_id", "left_anti") if known is not None else lone
        found[name] = lone.localCheckpoint()
    return found


def _may_be_late(table: Table) -> bool:
    return topics()[str(table.topic)].lateness.allowance is not None
