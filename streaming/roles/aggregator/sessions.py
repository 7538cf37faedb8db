"""Aggregator: silver.clicks + silver.orders -> gold.sessions, visits that end after 30 minutes without an event.

State: one row per open session, until the watermark has passed its end; only then is it written to the table.
"""

from datetime import timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from config.declarations import table_named
from lake.batch import Batch
from lake.batch_log import record_batch
from lake.tables import columns, upsert
from streaming.job import Bounded, Job, Provenance, Query

CLICKS, ORDERS = "silver.clicks", "silver.orders"
TABLE = "gold.sessions"
GAP = "30 minutes"


def sessions(clicks: DataFrame, orders: DataFrame) -> DataFrame:
    """Group the clicks and placed orders of each user into sessions."""
    events = clicks.select("user_id", "event_time", "type").unionByName(
        orders.filter("type = 'order_placed'").select("user_id", "event_time", "type")
    )
    grouped = (
        events.groupBy("user_id", F.session_window("event_time", GAP).alias("session"))
        .agg(
            F.count("*").alias("events"),
            F.count_if(F.col("type") == "page_view").alias("pages"),
            (F.count_if(F.col("type") == "order_placed") > 0).alias("converted"),
        )
        .withColumn("session_start", F.col("session.start"))
        .withColumn("session_end", F.col("session.end"))
        .withColumn("day", F.to_date("session_start"))
    )
    return grouped.select(*columns(table_named(TABLE)))


def write(batch: Batch) -> None:
    """Write one micro-batch."""
    written = upsert(batch, TABLE, batch.rows.toArrow())
    record_batch(batch, written)


def job() -> Job:
    """Define the job."""
    return Job(
        name="sessions",
        role="aggregator",
        version=1,
        reads=(CLICKS, ORDERS),
        writes=(TABLE,),
        query=Query(transform=lambda tables: sessions(tables[CLICKS], tables[ORDERS])),
        process=write,
        bounded=Bounded(max_event_gap=None, reach=timedelta(0), starts_at="session_start"),
        provenance=Provenance(
            row_contains_event="e.user_id = r.user_id"
            " and r.session_start <= e.event_time and e.event_time < r.session_end",
            row_affected_by_event="e.user_id = r.user_id and e.event_time <= r.session_end"
            f" and e.event_time >= r.session_start - interval '{GAP}'",
            shared_columns=("user_id",),
        ),
    )
