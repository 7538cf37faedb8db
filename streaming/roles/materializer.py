"""Materializer: silver.orders (order_status_changed) -> gold.order_status, the current status of each order.

State: no Spark state; the table is the state, and each micro-batch is merged into it once. The latest change by event
time wins whenever it arrives, so a status never goes backwards.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from config.declarations import table_named
from lake.batch import Batch
from lake.batch_log import record_batch
from lake.ordering import precedes
from lake.tables import columns, upsert
from streaming.job import Bounded, Job, Provenance

ORDERS = "silver.orders"
TABLE = "gold.order_status"
NEWER = precedes((("status_time", "descending"), ("status_event_id", "descending")))


def order_status(orders: DataFrame) -> DataFrame:
    """Find the latest status of each order by event time, and count its changes."""
    latest = F.max(F.struct("event_time", "event_id", "status")).alias("latest")
    statuses = (
        orders.filter("type = 'order_status_changed'")
        .groupBy("order_id")
        .agg(latest, F.count("*").alias("changes"))
        .withColumn("status", F.col("latest.status"))
        .withColumn("status_time", F.col("latest.event_time"))
        .withColumn("status_event_id", F.col("latest.event_id"))
    )
    return statuses.select(*columns(table_named(TABLE)))


def write(batch: Batch) -> None:
    """Merge the status changes of one micro-batch into the table."""
    rows = order_status(batch.rows).toArrow()
    changes = {
        column: f"case when {NEWER} then s.{column} else t.{column} end"
        for column in ("status", "status_time", "status_event_id")
    }
    written = upsert(batch, TABLE, rows, changes=changes | {"changes": "t.changes + s.changes"})
    record_batch(batch, written)


def job() -> Job:
    """Define the job."""
    return Job(
        name="order_status",
        role="materializer",
        version=1,
        reads=(ORDERS,),
        writes=(TABLE,),
        process=write,
        bounded=Bounded(max_event_gap=None),
        provenance=Provenance(
            row_contains_event="e.type = 'order_status_changed' and e.order_id = r.order_id",
            shared_columns=("order_id",),
        ),
    )
