"""Enricher: silver.clicks + silver.users -> silver.clicks_enriched, each click with its user's tier at event time.

State: no Spark state; user versions are looked up in silver.users, which landing commits before the clicks of the same
micro-batch. If no version is known yet, the tier is `unknown`; a replay or the batch layer, which read all versions,
correct it.
"""

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from config.declarations import table_named
from lake.batch import Batch
from lake.batch_log import record_batch
from lake.tables import append, columns, read, try_collect
from streaming.job import Job, Provenance

UNKNOWN = "unknown"
TABLE = "silver.clicks_enriched"


def attach_tier(clicks: DataFrame, users: DataFrame) -> DataFrame:
    """Add to each click the loyalty tier that its user held at event time."""
    versions = users.select(
        F.col("user_id").alias("version_of"),
        F.col("event_id").alias("version_event_id"),
        # A deleted user has no tier, whatever `after` says.
        F.when(F.col("op") != "d", F.col("tier")).alias("version_tier"),
        "valid_from",
        "valid_to",
    )
    held_at_event_time = (
        (F.col("user_id") == F.col("version_of"))
        & (F.col("valid_from") <= F.col("event_time"))
        & (F.col("valid_to").isNull() | (F.col("event_time") < F.col("valid_to")))
    )
    enriched = (
        clicks.join(versions, held_at_event_time, "left")
        .withColumn("tier", F.coalesce("version_tier", F.lit(UNKNOWN)))
        .withColumn("tier_event_id", F.when(F.col("version_tier").isNotNull(), F.col("version_event_id")))
        .withColumn("event_date", F.to_date("event_time"))
    )
    return enriched.select(*columns(table_named(TABLE)))


def enrich(batch: Batch) -> None:
    """Enrich one micro-batch of clicks with the user versions known now."""
    users = read(batch.rows.sparkSession, "silver.users", batch.settings, batch.generation_of("silver.users"))
    enriched = attach_tier(batch.rows, users)
    # One Spark action if the rows fit in memory: with many jobs running, every action waits for cores.
    rows = try_collect(enriched)
    if rows is None:
        rows = enriched.localCheckpoint()
    count = len(rows) if isinstance(rows, pa.Table) else rows.count()
    if count:
        append(batch, TABLE, rows)
    record_batch(batch, count)


def job() -> Job:
    """Define the job."""
    return Job(
        name="clicks_enriched",
        role="enricher",
        version=1,
        reads=("silver.clicks",),
        writes=(TABLE,),
        process=enrich,
        provenance=Provenance(
            row_contains_event="e.event_id = r.event_id and e.event_time = r.event_time",
            shared_columns=("event_id",),
        ),
    )
