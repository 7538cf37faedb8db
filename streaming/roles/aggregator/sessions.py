"""Aggregator: silver.clicks + silver.orders -> gold.sessions, visits that end with 30 minutes without an event.

State: a row for each user's open session, until the watermark has passed its end; only then is it in the table.
"""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from config.declarations import table_named
from lake.batch_log import save_with
from lake.tables import columns, upsert
from streaming.job import Job

CLICKS, ORDERS = "silver.clicks", "silver.orders"
TABLE = "gold.sessions"
GAP = "30 minutes"


def sessions(clicks: DataFrame, orders: DataFrame) -> DataFrame:
    """Gather what each user did, clicks and orders placed, into sessions."""
    done = clicks.select("user_id", "event_time", "type").unionByName(
        orders.filter("type = 'order_placed'").select("user_id", "event_time", "type")
    )
    gathered = (
        done.groupBy("user_id", F.session_window("event_time", GAP).alias("session"))
        .agg(
            F.count("*").alias("events"),
            F.count_if(F.col("type") == "page_view").alias("pages"),
            (F.count_if(F.col("type") == "order_placed") > 0).alias("converted"),
        )
        .withColumn("session_start", F.col("session.start"))
        .withColumn("session_end", F.col("session.end"))
        .withColumn("day", F.to_date("session_start"))
    )
    return gathered.select(*columns(table_named(TABLE)))


def of(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Take what the job needs out of its tables."""
    return sessions(tables[CLICKS], tables[ORDERS])


def job() -> Job:
    """Define the job."""
    return Job(
        name="sessions",
        role="aggregator",
        version=1,
        reads=(CLICKS, ORDERS),
        writes=(TABLE,),
        transform=of,
        process=save_with(lambda batch, rows: upsert(batch, TABLE, rows)),
        reach=None,
        counts="e.user_id = r.user_id and r.session_start <= e.event_time and e.event_time < r.session_end",
        moves="e.user_id = r.user_id and e.event_time <= r.session_end"
        f" and e.event_time >= r.session_start - interval '{GAP}'",
    )
