"""Landed records: what became of each record of the log on two sides that have both read it.

A record has one outcome: silver, or one of the tables in which landing sets records aside. A record without an outcome
on one side was lost there, and one with two was counted twice: neither has a reason. Nor has a duplicate without its
first copy on the same side, which is a loss, nor a late record that arrived in time, nor a record in quarantine that
breaks no rule (quarantined.py).
"""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from config.declarations import Table, topics
from config.settings import Settings
from expectations.parity import quarantined, reasons
from expectations.parity.outcomes import BROKEN, OUTCOME, RECORD, firsts, side_rows
from expectations.parity.reasons import Explained
from expectations.parity.rows import LEFT, RIGHT, compare
from expectations.parity.sides import Side, in_common
from streaming.landing.classify import DUPLICATES, LATE, QUARANTINED, SILVER
from streaming.landing.write import SIDE_TABLES

REASONS = {LATE: reasons.LATE, QUARANTINED: reasons.QUARANTINED, DUPLICATES: reasons.DUPLICATE}
"""By outcome, the reason for which the other side has the record in silver."""


def compare_landed(left: Side, right: Side, table: Table, settings: Settings) -> Explained:
    """Compare the records of a table's topic that both sides have read: their outcomes, and their rows in silver."""
    ours, theirs = (
        _with_outcomes(side, table).filter(in_common(left, right, str(table.topic))) for side in (left, right)
    )
    parity = compare(ours, theirs, table, key=RECORD, columns=(*table.stored, OUTCOME, BROKEN))
    if not parity.rows:
        return Explained(parity, parity.differing, {}, RECORD)
    shown = quarantined.with_proof(parity.differing, {LEFT: left, RIGHT: right}, table, settings)
    for name, side in ((LEFT, left), (RIGHT, right)):
        shown = _with_proof(shown, name, side, table)
    proved = F.col(f"{LEFT}_proved") & F.col(f"{RIGHT}_proved") & F.col(quarantined.PROVED)
    found = (
        shown.withColumn("reason", F.when(proved, _reason()).otherwise(reasons.UNEXPLAINED))
        .withColumn("events", F.array_compact(F.array(F.coalesce(f"{LEFT}.event_id", f"{RIGHT}.event_id"))))
        .drop(f"{LEFT}_proved", f"{RIGHT}_proved")
        .localCheckpoint()  # few rows, read several times
    )
    by_reason = {row["reason"]: row["count"] for row in found.groupBy("reason").count().collect()}
    unproved = found.filter(~F.col(quarantined.PROVED)).count() if by_reason.get(reasons.UNEXPLAINED) else 0
    rows = found.drop(quarantined.PROVED)
    return Explained(parity, rows, by_reason, RECORD, quarantined.note(table, unproved))


def _with_outcomes(side: Side, table: Table) -> DataFrame:
    """Return the rows of silver, and the records of the topic that were set aside, without their content."""
    of_topic = F.col("topic") == F.lit(table.topic)
    aside = []
    for name, outcome in SIDE_TABLES.items():
        if name in side.tables:
            broken = [F.col("rules").alias(BROKEN)] if outcome == QUARANTINED else []
            rows = side.frame(name).filter(of_topic)
            aside.append(rows.select(*RECORD, F.lit(outcome).alias(OUTCOME), *broken))
    nothing = F.lit(None).cast("array<string>").alias(BROKEN)
    silver = side.frame(table.name).select(*table.stored, F.lit(SILVER).alias(OUTCOME), nothing)
    return reduce(lambda rows, more: rows.unionByName(more, allowMissingColumns=True), [silver, *aside])


def _with_proof(rows: DataFrame, name: str, side: Side, table: Table) -> DataFrame:
    """Add whether each record, few of them, can be late or a duplicate where a side has it as such."""
    outcome = F.col(f"{name}.{OUTCOME}")
    late = side_rows(side, table, LATE, rows.filter(outcome == LATE))
    copies = side_rows(side, table, DUPLICATES, rows.filter(outcome == DUPLICATES))
    possible = _too_late(late, table).union(_after_another(copies, side, table)).distinct()
    possible = possible.withColumn("possible", F.lit(True))
    proved = F.col("possible").isNotNull() | ~F.coalesce(outcome.isin(LATE, DUPLICATES), F.lit(False))
    found = rows.join(F.broadcast(possible), list(RECORD), "left")
    return found.withColumn(f"{name}_proved", proved).drop("possible")


def _too_late(late: DataFrame, table: Table) -> DataFrame:
    """Return the records that arrived later after their event than their topic allows."""
    allowance = topics()[str(table.topic)].lateness.allowance
    if allowance is None:
        return late.select(*RECORD).limit(0)
    return late.filter(F.col("arrival_time") - F.col("event_time") > F.lit(allowance)).select(*RECORD)


def _after_another(copies: DataFrame, side: Side, table: Table) -> DataFrame:
    """Return the duplicates whose first copy, another record, is in silver or among the late records of their side."""
    return firsts(copies, side, table).select(*(f"copy.{column}" for column in RECORD))


def _reason() -> Column:
    """Give a record with two different outcomes, one on each side, the reason of the one that is not silver.

    One that both have in quarantine, for other rules, has landed under other rules.
    """
    outcomes = [F.col(f"{side}.{OUTCOME}") for side in (LEFT, RIGHT)]
    twice_quarantined = (outcomes[0] == QUARANTINED) & (outcomes[1] == QUARANTINED)
    accounted = (F.col("copies") == 1) & ((outcomes[0] != outcomes[1]) | twice_quarantined)
    reason = F.when(~F.coalesce(accounted, F.lit(False)), reasons.UNEXPLAINED).when(twice_quarantined, reasons.LOGIC)
    for outcome, name in REASONS.items():
        reason = reason.when((outcomes[0] == outcome) | (outcomes[1] == outcome), name)
    return reason
