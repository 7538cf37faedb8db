"""Aggregator: silver.clicks_enriched -> gold.views_per_minute, page views by product and tier in tumbling minutes.

State: one row per minute, product, tier (and salt), until the watermark has passed the end of the minute.
"""

from datetime import timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from config.declarations import table_named
from lake.batch import Batch
from lake.batch_log import record_batch
from lake.tables import columns, read
from streaming.job import Bounded, Job, Provenance, Query
from streaming.roles.aggregator import DURING
from streaming.roles.enricher import attach_tier
from streaming.windows.late import late_events, upsert_windows
from streaming.windows.salting import UNSALTED, Salt, Saltable, collect_unsalted

CLICKS = "silver.clicks_enriched"
TABLE = "gold.views_per_minute"
LATE_PARTS = {"views": "late_views", "dwell_ms": "late_dwell_ms"}


def views_per_minute(clicks: DataFrame, salt: Salt = UNSALTED) -> DataFrame:
    """Count page views by minute, product and tier."""
    counted = (
        salt.spread(clicks.filter("type = 'page_view'"))
        .groupBy(F.window("event_time", "1 minute").alias("minute"), "product_id", "tier", *salt.key)
        .agg(salt.count().alias("views"), salt.sum("dwell_ms").alias("dwell_ms"))
        .withColumn("window_start", F.col("minute.start"))
        .withColumn("window_end", F.col("minute.end"))
        .withColumn("late_views", F.lit(0))
        .withColumn("late_dwell_ms", F.lit(0))
        .withColumn("day", F.to_date("window_start"))
    )
    return counted.select(*columns(table_named(TABLE)))


def late_views(spark: SparkSession, batch: Batch) -> DataFrame:
    """Count the late page views by minute, product and tier, as if they had arrived in time."""
    users = read(spark, "silver.users", batch.settings, batch.generation_of("silver.users"))
    return views_per_minute(attach_tier(late_events(spark, batch, "clicks"), users))


def write(batch: Batch) -> None:
    """Write the windows of one micro-batch, with the counts of their late events."""
    rows = collect_unsalted(batch, LATE_PARTS)
    written = upsert_windows(batch, TABLE, rows, LATE_PARTS, late_views)
    record_batch(batch, written)


def job() -> Job:
    """Define the job."""
    return Job(
        name="views_per_minute",
        role="aggregator",
        version=1,
        reads=(CLICKS,),
        writes=(TABLE,),
        query=Query(
            transform=Saltable(lambda tables, salt: views_per_minute(tables[CLICKS], salt)), output_mode="update"
        ),
        process=write,
        handles_late=True,
        bounded=Bounded(late_parts=LATE_PARTS, reach=timedelta(minutes=1)),
        provenance=Provenance(
            row_contains_event=f"e.type = 'page_view' and e.product_id = r.product_id and e.tier = r.tier and {DURING}",
            shared_columns=("product_id",),
        ),
    )
