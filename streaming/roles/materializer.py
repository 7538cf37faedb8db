"""Materializer: silver.orders (order_status_changed) -> gold.order_status, where each order stands.

State: none of Spark's; the table is the state, merged batch by batch, each batch once. The latest change by event
time wins whenever it arrives, so an order never goes backwards.
"""

from dataclasses import replace

import pyarrow as pa
from lake.batch import Batch
from lake.ordering import precedes
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from config.declarations import table_named
from lake.batch_log import save_with
from lake.tables import columns, upsert
from streaming.job import Job

ORDERS = "silver.orders"
TABLE = "gold.order_status"
NEWER = precedes((("status_time", "descending"), ("status_event_id", "descending")))


def order_status(orders: DataFrame) -> DataFrame:
    """Find the latest status of each order by event time, and count its changes."""
    latest = F.max(F.struct("event_time", "event_id", "status")).alias("latest")
    found = (
        orders.filter("type = 'order_status_changed'")
        .groupBy("order_id")
        .agg(latest, F.count("*").alias("changes"))
        .withColumn("status", F.col("latest.status"))
        .withColumn("status_time", F.col("latest.event_time"))
        .withColumn("status_event_id", F.col("latest.event_id"))
    )
    return found.select(*columns(table_named(TABLE)))


def save(batch: Batch, rows: pa.Table) -> int:
    """Add a batch's changes to what the table knows of each order."""
    changes = {
        column: f"case when {NEWER} then s.{column} else t.{column} end"
        for column in ("status", "status_time", "status_event_id")
    }
    return upsert(batch, TABLE, rows, changes=changes | {"changes": "t.changes + s.changes"})


def materialize(batch: Batch) -> None:
    """Bring the table up to one micro-batch."""
    save_with(save)(replace(batch, rows=order_status(batch.rows)))


def job() -> Job:
    """Define the job."""
    return Job(
        name="order_status",
        role="materializer",
        version=1,
        reads=(ORDERS,),
        writes=(TABLE,),
        process=materialize,
        reach=None,
        counts="e.type = 'order_status_changed' and e.order_id = r.order_id",
    )
