"""Joiner: silver.clicks, impressions x clicks within 5 minutes -> gold.ad_clicks.

State: impressions and clicks, each until the watermark rules out a match.
"""

from datetime import timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from config.declarations import table_named
from lake.batch import Batch
from lake.batch_log import record_batch
from lake.tables import columns, upsert
from streaming.job import Bounded, Job, Provenance, Query

CLICKS = "silver.clicks"
TABLE = "gold.ad_clicks"
WITHIN = "interval 5 minutes"


def ad_clicks(clicks: DataFrame) -> DataFrame:
    """Join each click on an ad with its impression, at most five minutes earlier."""
    shown = clicks.filter("type = 'impression'").select(
        F.col("impression_id").alias("shown_id"),
        F.col("event_id").alias("impression_event_id"),
        F.col("event_time").alias("impression_time"),
    )
    clicked = clicks.filter("type = 'click'").select(
        "impression_id",
        "user_id",
        "product_id",
        F.col("event_id").alias("click_event_id"),
        F.col("event_time").alias("click_time"),
    )
    matches = F.expr(
        f"impression_id = shown_id and click_time >= impression_time and click_time <= impression_time + {WITHIN}"
    )
    joined = shown.join(clicked, matches).withColumn("day", F.to_date("click_time"))
    return joined.select(*columns(table_named(TABLE)))


def write(batch: Batch) -> None:
    """Write one micro-batch."""
    written = upsert(batch, TABLE, batch.rows.toArrow())
    record_batch(batch, written)


def job() -> Job:
    """Define the job."""
    return Job(
        name="ad_clicks",
        role="joiner",
        version=1,
        reads=(CLICKS,),
        writes=(TABLE,),
        query=Query(transform=lambda tables: ad_clicks(tables[CLICKS])),
        process=write,
        bounded=Bounded(max_event_gap=timedelta(minutes=5), reach=timedelta(minutes=5)),
        provenance=Provenance(
            row_contains_event="(e.event_id = r.impression_event_id and e.event_time = r.impression_time)"
            " or (e.event_id = r.click_event_id and e.event_time = r.click_time)",
            shared_columns=("impression_id",),
        ),
    )
