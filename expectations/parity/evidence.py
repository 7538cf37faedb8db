"""Evidence: collect the events that one side of a comparison counts and the other does not."""

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
    """Collect the late events of a generation, by the table that they would have landed in."""
    rows = read(spark, "silver.late", settings, generation)
    # Checkpointed: each is joined several times, and parsing is most of the work.
    events = {
        table.name: typed_late(rows, str(table.topic)).localCheckpoint()
        for table in landed_tables()
        if _may_be_late(table)
    }
    return events | {ENRICHED: attach_tier(events["silver.clicks"], users)}


def with_another_tier(left: DataFrame, right: DataFrame) -> dict[str, DataFrame]:
    """Collect the clicks that have different tiers on the two sides, with the rows of both sides."""
    differing = left.alias("l").join(right.alias("r"), "event_id").filter("l.tier != r.tier").select("event_id")
    ids = F.broadcast(differing.distinct())
    both = left.join(ids, "event_id", "left_semi").unionByName(right.join(ids, "event_id", "left_semi"))
    return {ENRICHED: both.localCheckpoint()}


def only_in_one(left: Frames, right: Frames, late_events: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """Collect the events that only one side has, except those that the other side has as late."""
    events = {}
    for name in (*(table.name for table in landed_tables() if _may_be_late(table)), ENRICHED):
        on_left, on_right = left(name), right(name)
        columns = list(table_named(name).stored)
        one_sided = on_left.join(on_right, "event_id", "left_anti").select(*columns)
        one_sided = one_sided.unionByName(on_right.join(on_left, "event_id", "left_anti").select(*columns))
        if name in late_events:
            one_sided = one_sided.join(late_events[name].select("event_id"), "event_id", "left_anti")
        events[name] = one_sided.localCheckpoint()
    return events


def _may_be_late(table: Table) -> bool:
    return topics()[str(table.topic)].lateness.allowance is not None
