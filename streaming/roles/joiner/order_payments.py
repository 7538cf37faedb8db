"""Joiner: silver.orders (order_placed) x silver.payments (payment_received) within an hour -> gold.order_payments.

State: orders and payments of an hour, each until the watermark rules out a match. A paid order is written at once; an
order without a payment is written as unpaid when the watermark has passed its hour. Of an order placed several times,
the first placing counts; of its payments, the first.
"""

from datetime import timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from config.declarations import table_named
from lake.batch import Batch
from lake.batch_log import record_batch
from lake.tables import columns, upsert_first_per_key
from streaming.job import Bounded, Job, Provenance, Query
from streaming.roles.joiner import FIRST_PLACED

ORDERS, PAYMENTS = "silver.orders", "silver.payments"
TABLE = "gold.order_payments"
WITHIN = "interval 1 hour"
FIRST = (*FIRST_PLACED, ("payment_time", "ascending"), ("payment_event_id", "ascending"))


def candidates(orders: DataFrame, payments: DataFrame) -> DataFrame:
    """Join each order with every payment received within the hour after it, or with none."""
    placed = orders.filter("type = 'order_placed'").select(
        *("order_id", "user_id", "merchant_id", "amount_cents"),
        F.col("event_id").alias("order_event_id"),
        F.col("event_time").alias("order_time"),
    )
    received = payments.filter("type = 'payment_received'").select(
        F.col("order_id").alias("paid_order_id"),
        F.col("event_id").alias("payment_event_id"),
        F.col("event_time").alias("payment_time"),
        F.col("amount_cents").alias("paid_cents"),
    )
    matches = F.expr(
        f"order_id = paid_order_id and payment_time >= order_time and payment_time <= order_time + {WITHIN}"
    )
    joined = (
        placed.join(received, matches, "left")
        .withColumn("paid", F.col("payment_event_id").isNotNull())
        .withColumn("day", F.to_date("order_time"))
    )
    return joined.select(*columns(table_named(TABLE)))


def write(batch: Batch) -> None:
    """Write one micro-batch."""
    written = upsert_first_per_key(batch, TABLE, batch.rows.toArrow(), FIRST)
    record_batch(batch, written)


def job() -> Job:
    """Define the job."""
    return Job(
        name="order_payments",
        role="joiner",
        version=1,
        reads=(ORDERS, PAYMENTS),
        writes=(TABLE,),
        query=Query(transform=lambda tables: candidates(tables[ORDERS], tables[PAYMENTS])),
        process=write,
        bounded=Bounded(max_event_gap=timedelta(hours=1), reach=timedelta(hours=1), pick_first_by=FIRST),
        provenance=Provenance(
            row_contains_event="(e.type = 'order_placed' and e.order_id = r.order_id)"
            " or (e.event_id = r.payment_event_id and e.event_time = r.payment_time)",
            shared_columns=("order_id",),
        ),
    )
