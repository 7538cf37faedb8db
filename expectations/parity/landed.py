"""Landed records: what became of each record of the log on two sides that have both read it.

A record has one outcome: silver, or one of the tables in which landing sets records aside. A record without an outcome
on one side was lost there, and one with two was counted twice: neither has a reason.
"""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from config.declarations import Table
from expectations.parity import reasons
from expectations.parity.reasons import Explained
from expectations.parity.rows import LEFT, RIGHT, compare
from expectations.parity.sides import Side, in_common
from streaming.landing.classify import DUPLICATES, LATE, QUARANTINED, SILVER
from streaming.landing.write import SIDE_TABLES

RECORD = ("partition", "offset")
OUTCOME = "outcome"
REASONS = {LATE: reasons.LATE, QUARANTINED: reasons.QUARANTINED, DUPLICATES: reasons.DUPLICATE}
"""By outcome, the reason for which the other side has the record in silver."""


def compare_landed(left: Side, right: Side, table: Table) -> Explained:
    """Compare the records of a table's topic that both sides have read: their outcomes, and their rows in silver."""
    ours, theirs = (
        _with_outcomes(side, table).filter(in_common(left, right, str(table.topic))) for side in (left, right)
    )
    parity = compare(ours, theirs, table, key=RECORD, columns=(*table.stored, OUTCOME))
    if not parity.rows:
        return Explained(parity, parity.differing, {}, RECORD)
    found = parity.differing.withColumn("reason", _reason()).withColumn(
        "events", F.array_compact(F.array(F.coalesce(f"{LEFT}.event_id", f"{RIGHT}.event_id")))
    )
    by_reason = {row["reason"]: row["count"] for row in found.groupBy("reason").count().collect()}
    return Explained(parity, found, by_reason, RECORD)


def _with_outcomes(side: Side, table: Table) -> DataFrame:
    """Return the rows of silver, and the records of the topic that were set aside, without their content."""
    of_topic = F.col("topic") == F.lit(table.topic)
    aside = [
        side.frame(name).filter(of_topic).select(*RECORD, F.lit(outcome).alias(OUTCOME))
        for name, outcome in SIDE_TABLES.items()
        if name in side.tables
    ]
    silver = side.frame(table.name).select(*table.stored, F.lit(SILVER).alias(OUTCOME))
    return reduce(lambda rows, more: rows.unionByName(more, allowMissingColumns=True), [silver, *aside])


def _reason() -> Column:
    """Give a record with two different outcomes, one on each side, the reason of the one that is not silver."""
    outcomes = [F.col(f"{side}.{OUTCOME}") for side in (LEFT, RIGHT)]
    accounted = (F.col("copies") == 1) & (outcomes[0] != outcomes[1])
    reason = F.when(~F.coalesce(accounted, F.lit(False)), reasons.UNEXPLAINED)
    for outcome, name in REASONS.items():
        reason = reason.when((outcomes[0] == outcome) | (outcomes[1] == outcome), name)
    return reason
