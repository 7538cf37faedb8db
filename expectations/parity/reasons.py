"""Reasons: a differing row -> the reason why, proved by recomputation, and the events that caused it.

A reason holds only if the job's own transformation makes the rows of both sides: the right row from the right side's
inputs, and the left row from the same inputs with the events of the reasons added or taken away. The job's provenance
conditions then decide which of these events affect the row. Every other row is unexplained; no reason is inferred.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from config.declarations import table_named
from expectations.parity.rows import LEFT, RIGHT, Parity, rows_at
from streaming.job import Job

LATE = "late"
QUARANTINED = "quarantined by one of them only"
DUPLICATE = "another copy came first"
DIMENSION = "dimension arrived later"
ONE_SIDED = "read by one of them only"
LOGIC = "changed logic"
UNEXPLAINED = "unexplained"
BECAUSE = "because"
"""The column of an event with its reason; payments have a column `reason` of their own."""

OF_EVENTS = (LATE, QUARANTINED, DUPLICATE, DIMENSION, ONE_SIDED)
"""The reasons that events have; a row that events of several reasons affect gets the first of them."""

Evidence = Iterable[Callable[[], Mapping[str, DataFrame]]]
"""Functions that collect events that only one side counts, each with its reason, by the table that a job reads.

Each function is called only if rows are still without a reason.
"""


@dataclass(frozen=True)
class Recomputed:
    """The table of a job, computed again from complete inputs, at least at the differing keys."""

    left: DataFrame
    """From the right side's inputs and the events of the reasons: from the left side's inputs, if all is explained."""

    right: DataFrame
    """From the right side's inputs."""

    previous: DataFrame | None = None
    """From the right side's inputs by the code that wrote the right side, if that is not the current code."""

    outdated: DataFrame | None = None
    """All rows that the right side's inputs could give while the latest versions of a dimension were unknown."""


@dataclass(frozen=True)
class Explained:
    """The differing rows of a table, each with its reason and the events that caused it."""

    parity: Parity
    rows: DataFrame
    """Columns: the key, both rows, `copies`, `reason` and `events`."""

    by_reason: dict[str, int]
    key: Sequence[str]
    note: str = ""
    """What is not known, and would be needed to give more rows a reason."""

    @property
    def unexplained(self) -> int:
        """Count the rows without a reason."""
        return self.by_reason.get(UNEXPLAINED, 0)


def explain(
    parity: Parity, job: Job, key: Sequence[str], recompute: Callable[[], Recomputed], evidence: Evidence
) -> Explained:
    """Give each differing row its reason; rows are recomputed and events collected only if rows differ."""
    if not parity.rows:
        return Explained(parity, parity.differing, {}, key)
    recomputed = recompute()
    remaining = _proved(parity, key, list(table_named(job.writes[0]).stored), recomputed).localCheckpoint()
    found = [remaining.filter(F.col("reason").isNotNull()).withColumn("events", _no_events())]
    remaining = remaining.filter(F.col("reason").isNull()).drop("reason")
    for collect in evidence:
        if remaining.isEmpty():
            break
        by_table = collect()
        affecting = [_affecting_events(remaining, key, job, by_table[name]) for name in job.reads if name in by_table]
        if affecting:
            known = reduce(DataFrame.unionByName, affecting).groupBy(*key)
            by_key = known.agg(_first_reason().alias("reason"), F.collect_set("event_id").alias("events"))
            found.append(remaining.join(by_key, list(key)).localCheckpoint())
            remaining = remaining.join(found[-1].select(*key), list(key), "left_anti").localCheckpoint()
    # A proved row that no event affects differs by the versions of a dimension, if its job looks one up.
    reason = UNEXPLAINED if recomputed.outdated is None else DIMENSION
    found.append(remaining.withColumn("reason", F.lit(reason)).withColumn("events", _no_events()))
    rows = reduce(DataFrame.unionByName, found).localCheckpoint()
    by_reason = {row["reason"]: row["count"] for row in rows.groupBy("reason").count().collect()}
    return Explained(parity, rows, by_reason, key)


def _proved(parity: Parity, key: Sequence[str], columns: list[str], recomputed: Recomputed) -> DataFrame:
    """Add the reason of the rows that need no event, `unexplained` for rows without proof, and null for the others."""
    again = {"left_again": recomputed.left, "right_again": recomputed.right}
    if recomputed.previous is not None:
        again["previous"] = recomputed.previous
    rows = parity.differing
    for name, frame in again.items():
        rows = rows_at(rows, frame, key, columns, name)
    left_holds = F.col(LEFT).eqNullSafe(F.col("left_again")) & (F.col("copies") == 1)
    reason = F.when(~left_holds, UNEXPLAINED).when(F.col(RIGHT).eqNullSafe(F.col("right_again")), F.lit(None))
    if recomputed.previous is not None:
        reason = reason.when(F.col(RIGHT).eqNullSafe(F.col("previous")), LOGIC)
    if recomputed.outdated is not None:
        possible = recomputed.outdated.select(*key, F.struct(*(f"`{name}`" for name in columns)).alias("possible"))
        by_key = possible.join(F.broadcast(rows.select(*key)), list(key), "left_semi").groupBy(*key)
        rows = rows.join(by_key.agg(F.collect_list("possible").alias("possible")), list(key), "left")
        reason = reason.when(F.array_contains("possible", F.col(RIGHT)), DIMENSION)
    columns_kept = [*key, LEFT, RIGHT, "copies"]
    return rows.withColumn("reason", reason.otherwise(UNEXPLAINED)).select(*columns_kept, "reason")


def _affecting_events(rows: DataFrame, key: Sequence[str], job: Job, events: DataFrame) -> DataFrame:
    """Find the events that affect either side of the differing rows."""
    condition = job.provenance.row_affected_by_event or job.provenance.row_contains_event
    for name in set(re.findall(r"\be\.(\w+)", condition)) - set(events.columns):
        events = events.withColumn(name, F.lit(None).cast("string"))
    sides = [rows.filter(F.col(side).isNotNull()).select(F.col(f"{side}.*")) for side in (LEFT, RIGHT)]
    either = reduce(DataFrame.unionByName, sides)
    joined = either.alias("r").join(events.alias("e"), F.expr(condition))
    return joined.select(*(F.col(f"r.{name}").alias(name) for name in key), "e.event_id", f"e.{BECAUSE}")


def _first_reason() -> Column:
    order = F.array(*map(F.lit, OF_EVENTS))
    return F.element_at(order, F.min(F.array_position(order, F.col(BECAUSE))).cast("int"))


def _no_events() -> Column:
    return F.lit(None).cast("array<string>")
