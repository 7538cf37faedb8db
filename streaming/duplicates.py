"""Copies of events: which records repeat an event that landed before, and which reuse its id for another.

An event is known by its topic, its id and the hour of its event time (the horizon, configurable). That is an
equivalence, so the answer is the same however the log was cut into batches; and it bounds the search: only the
stretches that a batch touches are looked up in silver, never the history (docs/decisions/0005).
"""

from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from streaming.job import Batch
from streaming.parsing import Contract
from streaming.tables import read

IDENTITY = ("topic", "event_id", "stretch")
LANDED = ("event_id", "event_time", "partition", "offset", "content_hash")
COPY = (*IDENTITY, "landed", "partition", "offset", "content_hash")


def with_stretch(rows: DataFrame, horizon_seconds: int) -> DataFrame:
    """Give each row the number of the horizon-long stretch that its event time lies in."""
    return rows.withColumn("stretch", F.expr(f"unix_seconds(event_time) div {horizon_seconds}"))


def landed_copies(
    spark: SparkSession, promised: Iterable[Contract], seen: Mapping[str, Row], batch: Batch
) -> DataFrame:
    """Read what landed before, in silver or as late, in the stretches of event time that each topic touches now."""
    horizon = batch.settings.streaming.dedup_horizon_minutes * 60
    within = {topic: _within(row.stretches, horizon) for topic, row in seen.items()}
    late_within = " or ".join(f"(topic = '{topic}' and ({test}))" for topic, test in within.items())
    late = read(spark, "silver.late", batch.settings.warehouse, batch.generation)
    found = late.filter(late_within).filter("duplicate_of is null").select("topic", *LANDED)
    for contract in promised:
        if contract.topic.name in within:
            landed = read(spark, contract.table.name, batch.settings.warehouse, batch.generation)
            landed = landed.filter(within[contract.topic.name])
            found = found.unionByName(landed.select(F.lit(contract.topic.name).alias("topic"), *LANDED))
    return with_stretch(found, horizon).withColumn("landed", F.lit(True)).select(*COPY).coalesce(1)


def first_copies(valid: DataFrame, landed: DataFrame) -> DataFrame:
    """Find the first copy of every event that there is more than once: one row for each such event."""
    copies = valid.withColumn("landed", F.lit(False)).select(*COPY).unionByName(landed)
    # What landed before comes first; then the order of the log.
    first = F.min(F.struct(~F.col("landed"), "partition", "offset", "content_hash")).alias("first")
    return copies.groupBy(*IDENTITY).agg(F.count("*").alias("copies"), first).filter("copies > 1").drop("copies")


def _within(stretches: list[int], horizon: int) -> str:
    """Write the stretches as ranges of event time, neighbours joined, so that Delta can skip files by their statistics."""
    ranges: list[list[int]] = []
    for stretch in sorted(stretches):
        if ranges and ranges[-1][1] == stretch:
            ranges[-1][1] = stretch + 1
        else:
            ranges.append([stretch, stretch + 1])
    tests = [
        f"(event_time >= timestamp_seconds({low * horizon}) and event_time < timestamp_seconds({high * horizon}))"
        for low, high in ranges
    ]
    return " or ".join(tests) or "false"
