"""Joiner: silver.clicks (add_to_cart) x silver.orders (order_placed) within 24 hours -> gold.conversions.

State: cart events and orders of 24 hours, each until the watermark rules out a match. An order is credited to the last
cart event before it; of an order placed several times, the first placing with a cart event counts. Candidates may
arrive in any order and in several micro-batches: the first by this order wins.
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

CLICKS, ORDERS = "silver.clicks", "silver.orders"
TABLE = "gold.conversions"
WITHIN = "interval 24 hours"
FIRST = (*FIRST_PLACED, ("cart_time", "descending"), ("cart_event_id", "descending"))


def candidates(clicks: DataFrame, orders: DataFrame) -> DataFrame:
    """Join each order with every cart event of its user and product in the 24 hours before."""
    carts = clicks.filter("type = 'add_to_cart'").select(
        F.col("user_id").alias("cart_user_id"),
        F.col("product_id").alias("cart_product_id"),
        F.col("event_id").alias("cart_event_id"),
        F.col("event_time").alias("cart_time"),
    )
    placed = orders.filter("type = 'order_placed'").select(
        *("order_id", "user_id", "product_id", "amount_cents"),
        F.col("event_id").alias("order_event_id"),
        F.col("event_time").alias("order_time"),
    )
    matches = F.expr(
        "cart_user_id = user_id and cart_product_id = product_id"
        f" and cart_time <= order_time and cart_time >= order_time - {WITHIN}"
    )
    joined = carts.join(placed, matches).withColumn("day", F.to_date("order_time"))
    return joined.select(*columns(table_named(TABLE)))


def write(batch: Batch) -> None:
    """Write one micro-batch."""
    written = upsert_first_per_key(batch, TABLE, batch.rows.toArrow(), FIRST)
    record_batch(batch, written)


def job() -> Job:
    """Define the job."""
    return Job(
        name="conversions",
        role="joiner",
        version=1,
        reads=(CLICKS, ORDERS),
        writes=(TABLE,),
        query=Query(transform=lambda tables: candidates(tables[CLICKS], tables[ORDERS])),
        process=write,
        bounded=Bounded(max_event_gap=timedelta(hours=24), reach=timedelta(hours=24), pick_first_by=FIRST),
        provenance=Provenance(
            row_contains_event="(e.type = 'order_placed' and e.order_id = r.order_id)"
            " or (e.event_id = r.cart_event_id and e.event_time = r.cart_time)",
            shared_columns=("user_id", "product_id"),
        ),
    )
