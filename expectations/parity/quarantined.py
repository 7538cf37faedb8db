"""Quarantined records: one that only one side has in quarantine must break a rule there, and none on the other side.

Rules may have changed between the landings of the two sides, so each side may have applied the rules as they are or as
they were (earlier_rules.py). A record that reuses an event id, or that someone has set aside, breaks no rule itself.
"""

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from config.declarations import Table
from config.settings import Settings
from expectations.parity.outcomes import BROKEN, OUTCOME, RECORD, firsts, side_rows
from expectations.parity.revalidated import VERSIONS, WAS_SET_ASIDE, received, revalidated, with_earlier_rules
from expectations.parity.rows import LEFT, RIGHT
from expectations.parity.sides import Side
from streaming.landing.classify import QUARANTINED, REUSED_ID
from streaming.set_aside import RULE

PROVED = "quarantine_proved"
COPIES = ("first", "copy")
Sides = Mapping[str, Side]


def with_proof(rows: DataFrame, sides: Sides, table: Table, settings: Settings) -> DataFrame:
    """Add whether differing records, few of them, are in quarantine on a side only because of what they contain."""
    has = [F.col(f"{name}.{OUTCOME}") for name in (LEFT, RIGHT)]
    concerned = F.coalesce((has[0] == QUARANTINED) | (has[1] == QUARANTINED), F.lit(False))
    doubtful = rows.filter(concerned & has[0].isNotNull() & has[1].isNotNull()).localCheckpoint()
    if doubtful.isEmpty():
        return rows.withColumn(PROVED, ~concerned)
    aside = {name: side_rows(side, table, QUARANTINED, doubtful) for name, side in sides.items()}
    known = [frame.select("topic", *RECORD, "arrival_time") for frame in aside.values()]
    refused = reduce(DataFrame.unionByName, known).filter("arrival_time is null")
    records = received(doubtful, str(table.topic), settings, refused)
    again = revalidated(records, settings)
    found = _checked(doubtful, again, aside, sides, table, settings)
    if not found.filter(~F.col(PROVED)).isEmpty():
        again = with_earlier_rules(again, records, str(table.topic), settings)
        found = _checked(doubtful, again, aside, sides, table, settings)
    held = found.filter(PROVED).select(*RECORD, F.lit(True).alias(PROVED))
    marked = rows.join(F.broadcast(held), list(RECORD), "left")
    return marked.withColumn(PROVED, F.col(PROVED).isNotNull() | ~concerned)


def note(table: Table, unproved: int) -> str:
    """Say why records in quarantine have no reason; nothing if all have one."""
    if not unproved:
        return ""
    return (
        f"{unproved:,} records of {table.topic} are in quarantine on one side and break no rule there, neither a "
        "current one nor one of an earlier commit of this branch. If they were landed by rules that were never "
        "committed, these are not known any more."
    )


def _checked(
    doubtful: DataFrame,
    again: DataFrame,
    aside: Mapping[str, DataFrame],
    sides: Sides,
    table: Table,
    settings: Settings,
) -> DataFrame:
    """Add whether the rules that a record breaks give its outcome on both sides."""
    found = doubtful.join(F.broadcast(again), list(RECORD), "left")
    for name, side in sides.items():
        reusing = _reusing(aside[name], again, side, table, settings.streaming.dedup_horizon_minutes)
        reusing = reusing.select(*RECORD, F.lit(True).alias(f"{name}_reuses")).distinct()
        found = found.join(F.broadcast(reusing), list(RECORD), "left")
    proved = _holds(LEFT, RIGHT) & _holds(RIGHT, LEFT)
    return found.withColumn(PROVED, F.coalesce(proved, F.lit(False))).localCheckpoint()


def _reusing(aside: DataFrame, again: DataFrame, side: Side, table: Table, horizon_minutes: int) -> DataFrame:
    """Return the quarantined records whose id another event of their side has, within one deduplication horizon."""
    content = again.select(*RECORD, "event_time", "content_hash")
    copies = aside.select(*RECORD, "event_id", "duplicate_of").join(F.broadcast(content), list(RECORD))
    first, copy = (F.floor(F.unix_micros(f"{each}.event_time") / (horizon_minutes * 60_000_000)) for each in COPIES)
    other = F.col("first.content_hash") != F.col("copy.content_hash")
    found = firsts(copies, side, table).filter(other & (first == copy))
    return found.select(*(f"copy.{column}" for column in RECORD))


def _holds(name: str, other: str) -> Column:
    """Test that a record can have its outcome on a side: quarantine for what it breaks, any other if it breaks nothing.

    Which rules it broke matters where both sides have it in quarantine.
    """
    broken, quarantined = F.col(f"{name}.{BROKEN}"), F.col(f"{name}.{OUTCOME}") == QUARANTINED
    passes = F.exists(VERSIONS, lambda rules: F.size(rules) == 0)
    as_recorded = F.exists(VERSIONS, lambda rules: rules == broken) & (F.size(broken) > 0)
    breaks_now = (F.size(F.element_at(VERSIONS, 1)) > 0) & (F.col(f"{other}.{OUTCOME}") != QUARANTINED)
    reuses = (broken == F.array(F.lit(REUSED_ID))) & passes & F.col(f"{name}_reuses").isNotNull()
    set_aside = (broken == F.array(F.lit(RULE))) & F.col(WAS_SET_ASIDE)
    return F.when(quarantined, as_recorded | breaks_now | reuses | set_aside).otherwise(passes | F.col(WAS_SET_ASIDE))
