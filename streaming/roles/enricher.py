"""Enricher: silver.clicks + silver.users -> silver.clicks_enriched, each click with its user's tier at that moment.

State: none of Spark's; versions of users are looked up in silver.users, which landing commits before the clicks of
the same micro-batch. Where no version is known yet the tier is `unknown`; a replay or the batch layer, which know
all versions, repair it.
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
    """Give each click the loyalty tier its user held when it happened."""
    versions = users.select(
        F.col("user_id").alias("version_of"),
        F.col("event_id").alias("version_event_id"),
        F.col("tier").alias("version_tier"),
        "valid_from",
        "valid_to",
    )
    held = (
        (F.col("user_id") == F.col("version_of"))
        & (F.col("valid_from") <= F.col("event_time"))
        & (F.col("valid_to").isNull() | (F.col("event_time") < F.col("valid_to")))
    )
    enriched = (
        clicks.join(versions, held, "left")
        .withColumn("tier", F.coalesce("version_tier", F.lit(UNKNOWN)))
        .withColumn("tier_event_id", F.when(F.col("version_tier").isNotNull(), F.col("version_event_id")))
        .withColumn("event_date", F.to_date("event_time"))
    )
    return enriched.select(*columns(table_named(TABLE)))


def enrich(batch: Batch) -> None:
    """Enrich one micro-batch of clicks with what is known of users now."""
    users = read(batch.rows.sparkSession, "silver.users", batch.settings, batch.generation_of("silver.users"))
    enriched = attach_tier(batch.rows, users)
    # In one action where it fits: among many jobs, each further one waits its turn.
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
            row_contains_event="e.event_id = r.event_id",
        ),
    )
