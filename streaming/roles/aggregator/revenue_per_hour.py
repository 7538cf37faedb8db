"""Aggregator: silver.payments -> gold.revenue_per_hour, money received per merchant in tumbling hours.

State: a row for each hour and merchant (and salt), until the watermark has passed the hour's end.
"""

from lake.batch import Batch
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from config.declarations import table_named
from lake.batch_log import save_with
from lake.tables import columns
from streaming.job import Job
from streaming.roles.aggregator import DURING
from streaming.windows.late import late_events, minding_late
from streaming.windows.salting import UNSALTED, Salt, Saltable, adding_up

PAYMENTS = "silver.payments"
TABLE = "gold.revenue_per_hour"
LATE_PARTS = {"payments": "late_payments", "revenue_cents": "late_revenue_cents"}


def revenue_per_hour(payments: DataFrame, salt: Salt = UNSALTED) -> DataFrame:
    """Add up the payments received by hour and merchant."""
    added = (
        salt.spread(payments.filter("type = 'payment_received'"))
        .groupBy(F.window("event_time", "1 hour").alias("hour"), "merchant_id", *salt.key)
        .agg(salt.count().alias("payments"), salt.sum("amount_cents").alias("revenue_cents"))
        .withColumn("window_start", F.col("hour.start"))
        .withColumn("window_end", F.col("hour.end"))
        .withColumn("late_payments", F.lit(0))
        .withColumn("late_revenue_cents", F.lit(0))
    )
    return added.select(*columns(table_named(TABLE)))


def late_revenue(spark: SparkSession, batch: Batch) -> DataFrame:
    """Add up the payments that came too late, as if they had not."""
    return revenue_per_hour(late_events(spark, batch, "payments"))


def job() -> Job:
    """Define the job."""
    return Job(
        name="revenue_per_hour",
        role="aggregator",
        version=1,
        reads=(PAYMENTS,),
        writes=(TABLE,),
        transform=Saltable(lambda tables, salt: revenue_per_hour(tables[PAYMENTS], salt)),
        mode="update",
        process=save_with(adding_up(list(LATE_PARTS), minding_late(TABLE, LATE_PARTS, late_revenue))),
        minds_late=True,
        counts=f"e.type = 'payment_received' and e.merchant_id = r.merchant_id and {DURING}",
    )
