"""Aggregator: silver.clicks_enriched -> gold.views_per_minute, page views per product and tier in tumbling minutes.

State: a row for each minute, product and tier, until the watermark has passed the minute's end.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from config.declarations import table_named
from streaming.batches import saving
from streaming.job import Job
from streaming.tables import columns, upsert

CLICKS = "silver.clicks_enriched"
TABLE = "gold.views_per_minute"


def views_per_minute(clicks: DataFrame) -> DataFrame:
    """Count page views by minute, product and tier."""
    counted = (
        clicks.filter("type = 'page_view'")
        .groupBy(F.window("event_time", "1 minute").alias("minute"), "product_id", "tier")
        .agg(F.count("*").alias("views"), F.sum("dwell_ms").alias("dwell_ms"))
        .withColumn("window_start", F.col("minute.start"))
        .withColumn("window_end", F.col("minute.end"))
        .withColumn("late_views", F.lit(0))
        .withColumn("day", F.to_date("window_start"))
    )
    return counted.select(*columns(table_named(TABLE)))


def job() -> Job:
    """Define the job."""
    return Job(
        name="views_per_minute",
        role="aggregator",
        version=1,
        reads=(CLICKS,),
        writes=(TABLE,),
        transform=lambda tables: views_per_minute(tables[CLICKS]),
        mode="update",
        process=saving(lambda batch, rows: upsert(batch, TABLE, rows)),
    )
