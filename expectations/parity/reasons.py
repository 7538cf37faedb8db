"""Reasons: why a row of one answer differs from the other's -> the events behind it, each found, none inferred.

A reason is a set of events, and the rows that an event counts in are told by the job that wrote them. A differing row
that no event of any reason counts in has no reason.
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
"""By reason, what gathers the events that one answer counts and the other does not, by the table a job reads."""


@dataclass(frozen=True)
class Explained:
    """The differing rows of a table, each with its reason and the events behind it."""

    parity: Parity
    rows: DataFrame
    """The key, both rows, `reason` and `events`."""

    by_reason: dict[str, int]

    @property
    def unexplained(self) -> int:
        """Count the rows that nothing explains."""
        return self.by_reason.get(UNEXPLAINED, 0)


def explain(parity: Parity, job: Job, key: list[str], evidence: Evidence, old: DataFrame | None = None) -> Explained:
    """Give each differing row its first reason, in the order of the evidence, which is gathered only while needed.

    old: what the job's former version makes of the inputs of the right answer; a row of it that is just the right
    answer's is there because of the logic.
    """
    left = parity.differing.withColumn("events", F.lit(None).cast("array<string>"))
    told = left.limit(0).withColumn("reason", F.lit(""))
    by_reason: dict[str, int] = {}
    unexplained = parity.rows

    def take(reason: str, found: DataFrame) -> None:
        """Tell the rows that were found, which are few, from those that are left."""
        nonlocal told, left, unexplained
        found = found.withColumn("reason", F.lit(reason)).localCheckpoint()
        count = found.count()
        if count:
            by_reason[reason] = count
            told = told.unionByName(found)
            left = left.join(found.select(*key), key, "left_anti").localCheckpoint()
            unexplained -= count

    if old is not None and unexplained:
        made = old.select(*key, F.struct(*(F.col(f"`{name}`") for name in old.columns)).alias("made"))
        same = F.col("made").eqNullSafe(F.col(RIGHT))
        take(LOGIC, left.join(made, key, "left").filter(same).drop("made"))
    for reason, gather in evidence.items():
        by_table = gather() if unexplained else {}
        behind = [_behind(left, key, job, by_table[read]) for read in job.reads if read in by_table]
        if behind:
            events = reduce(DataFrame.unionByName, behind).groupBy(*key).agg(F.collect_set("event_id").alias("events"))
            take(reason, left.drop("events").join(events, key))
    if unexplained:
        by_reason[UNEXPLAINED] = left.count()
        told = told.unionByName(left.withColumn("reason", F.lit(UNEXPLAINED)))
    return Explained(parity, told, by_reason)


def _behind(rows: DataFrame, key: list[str], job: Job, events: DataFrame) -> DataFrame:
    """Find, for differing rows, the events that count in either of their forms, or move them."""
    condition = job.provenance.row_affected_by_event or job.provenance.row_contains_event
    for name in set(re.findall(r"\be\.(\w+)", condition)) - set(events.columns):
        events = events.withColumn(name, F.lit(None).cast("string"))
    forms = [rows.filter(F.col(side).isNotNull()).select(F.col(f"{side}.*")) for side in (LEFT, RIGHT)]
    either = reduce(DataFrame.unionByName, forms)
    joined = either.alias("r").join(events.alias("e"), F.expr(condition))
    return joined.select(*(F.col(f"r.{name}").alias(name) for name in key), F.col("e.event_id").alias("event_id"))
