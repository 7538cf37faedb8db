"""Check: what landing would refuse of the records of an import, by rule, with examples: by landing's own parser."""

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

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
