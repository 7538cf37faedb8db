"""Inputs: what the rows of a job are recomputed from, and only the events that the differing rows depend on."""

from collections.abc import Mapping
from datetime import timedelta

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from config.declarations import Table, table_named
from expectations.parity.outcomes import RECORD
from expectations.parity.reasons import BECAUSE, UNEXPLAINED, Explained
from expectations.parity.rows import LEFT, RIGHT, Parity
from expectations.parity.sides import LANDED, Side
from streaming.bounded import lookups, recompute
from streaming.job import Job, jobs
from streaming.windows.late import add_late_parts, typed_late

Tables = Mapping[str, DataFrame]
WIDTH = 12
"""The digits of a rank in a key: keys of the same length cannot be mistaken for each other."""


class Restriction:
    """Restricts the inputs of a job to the events that the differing rows of its table depend on."""

    def __init__(self, job: Job, parity: Parity) -> None:
        self._job, self._parity = job, parity
        self._days: list[object] | None = None

    def of(self, tables: Tables) -> dict[str, DataFrame]:
        """Restrict tables; the tables that the job looks up are left whole."""
        looked_up = lookups(self._job)
        return {name: rows if name in looked_up else self._events(name, rows) for name, rows in tables.items()}

    def _events(self, name: str, events: DataFrame) -> DataFrame:
        shared = [column for column in self._job.provenance.shared_columns if column in events.columns]
        if shared:
            values = [self._parity.differing.select(*(f"{side}.{name}" for name in shared)) for side in (LEFT, RIGHT)]
            events = events.join(F.broadcast(values[0].union(values[1]).distinct()), shared, "left_semi")
        by_day, gap = table_named(name).partitioned_by, self._job.bounded.max_event_gap
        if by_day and gap is not None and table_named(self._job.writes[0]).partitioned_by:
            events = events.filter(F.col(by_day[0]).isin(self._days_within(gap)))
        if self._parity.closed_until:
            # What has happened since counts in no row that is final, and may not be in the tables yet.
            events = events.filter(F.col("event_time") < F.lit(self._parity.closed_until))
        return events

    def _days_within(self, gap: timedelta) -> list[object]:
        if self._days is None:
            (day,) = table_named(self._job.writes[0]).partitioned_by
            apart = -(-gap // timedelta(days=1))
            days = F.explode(F.array(f"{LEFT}.{day}", f"{RIGHT}.{day}"))
            found = {row[0] for row in self._parity.differing.select(days).distinct().collect() if row[0]}
            self._days = sorted({d + timedelta(days=step) for d in found for step in range(-apart, apart + 1)})
        return self._days


def recomputed(job: Job, tables: Tables, side: Side, strategy: str) -> DataFrame:
    """Compute a job's table from its inputs, with the late events of a side as the job's strategy counts them."""
    # Computed before it is joined with the keys: Spark would push the join below the session window, and lose events.
    rows = recompute(job, tables).localCheckpoint()
    if strategy == "leave" or LANDED not in side.tables:
        return rows
    late = recompute(job, {name: _late(name, side) for name in job.reads})
    (name,) = job.writes
    return add_late_parts(rows, late, table_named(name).key, job.bounded.late_parts, merged=strategy == "merge")


def _late(name: str, side: Side) -> DataFrame:
    """Compute the rows of a table that late events would have."""
    table = table_named(name)
    if table.topic:
        return typed_late(side.frame(LANDED), table.topic)
    (job,) = (each for each in jobs().values() if name in each.writes)
    return recompute(job, {each: _late(each, side) for each in job.reads} | {t: side.frame(t) for t in lookups(job)})


def outdated(job: Job, tables: Tables, side: Side) -> DataFrame | None:
    """Compute all rows that a side can have given while some versions of what a job looks up had not landed.

    An event surely knew the versions that landed in its own batch or in an earlier one, as landing commits versions
    before events. So its row has the last of these, or a later one.
    """
    if not lookups(job):
        return None
    if not side.steps:
        return recompute(job, tables).limit(0)
    # Jobs look up one table so far, for the events of one other.
    (read,), (looked_up,) = job.reads, lookups(job)
    table = table_named(looked_up)
    key = str(table.versioned_by)
    ranked = _ranked(tables[read], str(table_named(read).topic), side)
    events = ranked.withColumn("known", F.coalesce("rank", F.lit(-1))).localCheckpoint()
    knowing = events.select(key, "known").distinct()
    versions = tables[looked_up].join(F.broadcast(knowing.select(key).distinct()), key, "left_semi")
    seen = _ranked(versions, str(table.topic), side).join(F.broadcast(knowing), key)
    sure = F.when(F.col("rank") <= F.col("known"), F.col("valid_from"))
    later = Window.partitionBy(key, "known").orderBy("valid_from", *RECORD).rowsBetween(1, Window.unboundedFollowing)
    seen = seen.withColumn("valid_to", F.first(sure, ignorenulls=True).over(later))
    first = seen.groupBy(key, "known").agg(F.min(sure).alias("first_sure"))
    without = events.join(first, [key, "known"], "left").filter("first_sure is null or event_time < first_sure")
    rows = [
        recompute(job, {**tables, read: _keyed(some, key), looked_up: _keyed(versions, key)})
        for some, versions in ((events, seen), (without, seen.limit(0)))
    ]
    return rows[0].unionByName(rows[1]).withColumn(key, F.expr(f"substring({key}, {WIDTH + 1})"))


def _keyed(rows: DataFrame, key: str) -> DataFrame:
    """Put what is known before the key by which versions are looked up: each event finds those that it could know."""
    return rows.withColumn(key, F.concat(F.format_string(f"%0{WIDTH}d", "known"), F.col(key)))


def _ranked(rows: DataFrame, topic: str, side: Side) -> DataFrame:
    """Add the rank of the batch in which each row landed on a side, or null."""
    steps = [step[1:] for step in side.steps if step[0] == topic]
    ranges = rows.sparkSession.createDataFrame(steps, "number int, low bigint, high bigint, rank int")
    within = (
        (F.col("partition") == F.col("number")) & (F.col("offset") >= F.col("low")) & (F.col("offset") < F.col("high"))
    )
    return rows.join(F.broadcast(ranges), within, "left").drop("number", "low", "high")


def corrected(rows: DataFrame, table: Table, found: Explained) -> DataFrame:
    """Replace the rows of a left side that differ without a reason by those of the right side."""
    wrong = found.rows.filter(F.col("reason") == UNEXPLAINED)
    theirs = wrong.filter(F.col(f"{RIGHT}.event_id").isNotNull()).select(f"{RIGHT}.*").select(*table.stored)
    kept = rows.select(*table.stored).join(F.broadcast(wrong.select(*found.key)), list(found.key), "left_anti")
    fixed = kept.unionByName(theirs)
    return fixed.withColumn("valid_to", F.expr(table.valid_to)) if table.valid_to else fixed


def events(found: Explained, table: Table) -> DataFrame:
    """Return the events of an input that differ for a reason, as both sides have them."""
    rows = found.rows.filter(F.col("reason") != UNEXPLAINED).withColumnRenamed("reason", BECAUSE)
    sides = [
        rows.filter(F.col(f"{side}.event_id").isNotNull()).select(f"{side}.*", BECAUSE).select(*table.stored, BECAUSE)
        for side in (LEFT, RIGHT)
    ]
    return sides[0].unionByName(sides[1])
