"""Bounded sessions: clicks and placed orders -> sessions of users."""

from collections.abc import Mapping

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from config.declarations import table_named
from lake.tables import columns
from streaming.roles.aggregator.sessions import CLICKS, GAP, ORDERS, TABLE


def sessions(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Split the events of each user where a gap is too long, and count each part.

    The stream's session window turns each event into a session of its own and merges them one by one. Of a whole
    table, one shuffle and one sort by user and time show where each session begins. Filters on the result are safe
    too: Spark does not push them below the gaps.
    """
    events = _events(tables[CLICKS]).unionByName(_events(tables[ORDERS].filter("type = 'order_placed'")))
    of_user = Window.partitionBy("user_id").orderBy("event_time")
    # An event exactly at the end of a session still belongs to it.
    goes_on = F.col("event_time") <= F.lag("event_time").over(of_user) + F.expr(f"interval {GAP}")
    begins = F.when(goes_on, 0).otherwise(1)
    up_to_here = of_user.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    numbered = events.withColumn("begins", begins).withColumn("session", F.sum("begins").over(up_to_here))
    counted = (
        numbered.groupBy("user_id", "session")
        .agg(
            F.min("event_time").alias("session_start"),
            (F.max("event_time") + F.expr(f"interval {GAP}")).alias("session_end"),
            F.count("*").alias("events"),
            F.count_if("is_page").alias("pages"),
            (F.count_if("is_order") > 0).alias("converted"),
        )
        .withColumn("day", F.to_date("session_start"))
    )
    return counted.select(*columns(table_named(TABLE)))


def _events(rows: DataFrame) -> DataFrame:
    """Select what a session counts; two flags are cheaper to sort than the type."""
    return rows.filter("event_time is not null").select(
        "user_id",
        "event_time",
        (F.col("type") == "page_view").alias("is_page"),
        (F.col("type") == "order_placed").alias("is_order"),
    )
