"""Aggregator: silver.payments -> gold.revenue_per_hour, revenue per merchant in tumbling one-hour windows.

State: one row per hour, merchant (and salt), until the watermark has passed the end of the hour.
"""

from datetime import timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from config.declarations import table_named
from lake.batch import Batch
from lake.batch_log import record_batch
from lake.tables import columns
from streaming.job import Bounded, Job, Provenance, Query
from streaming.roles.aggregator import DURING
from streaming.windows.late import late_events, upsert_windows
from streaming.windows.salting import UNSALTED, Salt, Saltable, collect_unsalted

PAYMENTS = "silver.payments"
TABLE = "gold.revenue_per_hour"
LATE_PARTS = {"payments": "late_payments", "revenue_cents": "late_revenue_cents"}


def revenue_per_hour(payments: DataFrame, salt: Salt = UNSALTED) -> DataFrame:
    """Sum the received payments by hour and merchant."""
    revenue = (
        salt.spread(payments.filter("type = 'payment_received'"))
        .groupBy(F.window("event_time", "1 hour").alias("hour"), "merchant_id", *salt.key)
        .agg(salt.count().alias("payments"), salt.sum("amount_cents").alias("revenue_cents"))
        .withColumn("window_start", F.col("hour.start"))
        .withColumn("window_end", F.col("hour.end"))
        .withColumn("late_payments", F.lit(0))
        .withColumn("late_revenue_cents", F.lit(0))
    )
    return revenue.select(*columns(table_named(TABLE)))


def late_revenue(spark: SparkSession, batch: Batch) -> DataFrame:
    """Sum the late payments by hour and merchant, as if they had arrived in time."""
    return revenue_per_hour(late_events(spark, batch, "payments"))


def write(batch: Batch) -> None:
    """Write the windows of one micro-batch, with the sums of their late events."""
    rows = collect_unsalted(batch, LATE_PARTS)
    written = upsert_windows(batch, TABLE, rows, LATE_PARTS, late_revenue)
    record_batch(batch, written)


def job() -> Job:
    """Define the job."""
    return Job(
        name="revenue_per_hour",
        role="aggregator",
        version=1,
        reads=(PAYMENTS,),
        writes=(TABLE,),
        query=Query(
            transform=Saltable(lambda tables, salt: revenue_per_hour(tables[PAYMENTS], salt)), output_mode="update"
        ),
        process=write,
        handles_late=True,
        bounded=Bounded(late_parts=LATE_PARTS, reach=timedelta(hours=1)),
        provenance=Provenance(
            row_contains_event=f"e.type = 'payment_received' and e.merchant_id = r.merchant_id and {DURING}",
            shared_columns=("merchant_id",),
        ),
    )
