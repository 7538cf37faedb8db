"""Reasons: a differing row -> the reason why, and the events that caused it.

A reason is a set of events. The job's provenance conditions decide which rows an event affects. A differing row that
is affected by no event of any reason is unexplained; no reason is inferred.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from expectations.parity.rows import LEFT, RIGHT, Parity
from streaming.job import Job

LATE = "late"
ONE_SIDED = "read by one of them only"
DIMENSION = "dimension arrived later"
LOGIC = "changed logic"
UNEXPLAINED = "unexplained"
Evidence = Mapping[str, Callable[[], Mapping[str, DataFrame]]]
"""By reason, a function that collects the events that only one side counts, by the table that a job reads."""


@dataclass(frozen=True)
class Explained:
    """The differing rows of a table, each with its reason and the events that caused it."""

    parity: Parity
    rows: DataFrame
    """Columns: the key, both rows, `reason` and `events`."""

    by_reason: dict[str, int]

    @property
    def unexplained(self) -> int:
        """Count the rows without a reason."""
        return self.by_reason.get(UNEXPLAINED, 0)


def explain(
    parity: Parity, job: Job, key: list[str], evidence: Evidence, previous: DataFrame | None = None
) -> Explained:
    """Assign each differing row the first reason that applies; events are collected only while rows are unexplained.

    previous: the result of the job's previous version on the right side's inputs. If it equals the right side's row,
    the reason is changed logic.
    """
    remaining = parity.differing.withColumn("events", F.lit(None).cast("array<string>"))
    explained = remaining.limit(0).withColumn("reason", F.lit(""))
    by_reason: dict[str, int] = {}
    unexplained = parity.rows

    def assign(reason: str, rows: DataFrame) -> None:
        """Assign a reason to rows, which are few, and remove them from the remaining ones."""
        nonlocal explained, remaining, unexplained
        rows = rows.withColumn("reason", F.lit(reason)).localCheckpoint()
        count = rows.count()
        if count:
            by_reason[reason] = count
            explained = explained.unionByName(rows)
            remaining = remaining.join(rows.select(*key), key, "left_anti").localCheckpoint()
            unexplained -= count

    if previous is not None and unexplained:
        row = F.struct(*(F.col(f"`{name}`") for name in previous.columns)).alias("previous")
        same = F.col("previous").eqNullSafe(F.col(RIGHT))
        assign(LOGIC, remaining.join(previous.select(*key, row), key, "left").filter(same).drop("previous"))
    for reason, collect in evidence.items():
        by_table = collect() if unexplained else {}
        affecting = [_affecting_events(remaining, key, job, by_table[name]) for name in job.reads if name in by_table]
        if affecting:
            events = F.collect_set("event_id").alias("events")
            by_key = reduce(DataFrame.unionByName, affecting).groupBy(*key).agg(events)
            assign(reason, remaining.drop("events").join(by_key, key))
    if unexplained:
        by_reason[UNEXPLAINED] = remaining.count()
        explained = explained.unionByName(remaining.withColumn("reason", F.lit(UNEXPLAINED)))
    return Explained(parity, explained, by_reason)


def _affecting_events(rows: DataFrame, key: list[str], job: Job, events: DataFrame) -> DataFrame:
    """Find the events that affect either side of the differing rows."""
    condition = job.provenance.row_affected_by_event or job.provenance.row_contains_event
    for name in set(re.findall(r"\be\.(\w+)", condition)) - set(events.columns):
        events = events.withColumn(name, F.lit(None).cast("string"))
    sides = [rows.filter(F.col(side).isNotNull()).select(F.col(f"{side}.*")) for side in (LEFT, RIGHT)]
    either = reduce(DataFrame.unionByName, sides)
    joined = either.alias("r").join(events.alias("e"), F.expr(condition))
    return joined.select(*(F.col(f"r.{name}").alias(name) for name in key), F.col("e.event_id").alias("event_id"))
