"""Check: what landing would refuse of the records of an import, by rule, with examples: by landing's own parser."""

from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from config.declarations import topics
from config.errors import LakehouseError
from streaming.landing.parse import parse


@dataclass(frozen=True)
class Refusal:
    """A rule, how many records break it, and two of them."""

    rule: str
    records: int
    examples: tuple[str, ...]


@dataclass(frozen=True)
class Check:
    """What would become of the records of an import."""

    records: int
    refused: int
    repeated: int
    """Records with an event id that another record has too: landing keeps the first."""
    refusals: tuple[Refusal, ...]


def check(records: DataFrame, topic: str) -> Check:
    """Validate records as landing does, without sending them."""
    if _greatest_age_ms(topic) is not None:
        (earliest,) = records.agg(F.min("arrival_ms")).collect()[0]
        refuse_too_old(topic, earliest)
    log = records.select(
        F.lit(topic).alias("topic"),
        F.lit(0).alias("partition"),
        F.monotonically_increasing_id().alias("offset"),
        F.col("key").cast("binary").alias("key"),
        F.col("value").cast("binary").alias("value"),
        F.lit(None).cast("array<struct<key:string,value:binary>>").alias("headers"),
        F.timestamp_millis(F.coalesce("arrival_ms", F.lit(0))).alias("arrival_time"),
    )
    parsed = parse(log).select(F.col("value").cast("string").alias("value"), "event_id", "rules").localCheckpoint()
    totals = parsed.agg(
        F.count("*").alias("records"),
        F.count_if(F.size("rules") > 0).alias("refused"),
        (F.count("event_id") - F.count_distinct("event_id")).alias("repeated"),
    ).collect()[0]
    by_rule = (
        parsed.select(F.explode("rules").alias("rule"), "value")
        .groupBy("rule")
        .agg(F.count("*").alias("records"), F.min("value").alias("first"), F.max("value").alias("last"))
        .orderBy(F.desc("records"), "rule")
    )
    refusals = tuple(
        Refusal(row.rule, row.records, tuple(dict.fromkeys((row["first"], row["last"])))) for row in by_rule.collect()
    )
    return Check(totals.records, totals.refused, totals.repeated, refusals)


def refuse_too_old(topic: str, earliest_ms: int | None) -> None:
    """Refuse history that landing would quarantine for the age of its arrival times, which the import sets."""
    greatest = _greatest_age_ms(topic)
    age_ms = 0 if earliest_ms is None else int(datetime.now(UTC).timestamp() * 1000) - earliest_ms
    if greatest is not None and age_ms > greatest:
        raise LakehouseError(
            f"Landing quarantines records of {topic} that arrived more than {greatest / 86_400_000:g} days ago "
            f"(`arrival: producer`, lateness.max_arrival_age), and the first to import is {age_ms / 86_400_000:,.0f} "
            "days old.",
            f"Set `max_arrival_age: never` under `lateness` in config/topics/{topic}.yaml until the history is landed.",
        )


def _greatest_age_ms(topic: str) -> int | None:
    """Return the age beyond which landing believes no arrival time; None where it knows no such age."""
    declared = topics().get(topic)
    if declared is None or declared.arrival != "producer" or declared.lateness.max_arrival_age is None:
        return None
    return int(declared.lateness.max_arrival_age.total_seconds() * 1000)
