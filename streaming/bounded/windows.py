"""Bounded windows: page views -> views per minute and trending products.

Times are whole minutes since 1970: a number is cheaper to group by than Spark's window of two timestamps.
"""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from config.declarations import table_named
from lake.tables import columns
from streaming.roles.aggregator import trending as streamed_trending
from streaming.roles.aggregator import views_per_minute as streamed_views

MICROSECONDS = 60_000_000
SPAN = 5
"""Minutes of a sliding window; one starts every minute."""

BLOCK = 60
"""Windows, by start, that one task counts and ranks together."""


def views_per_minute(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Count page views by minute, product and tier, without the struct that a stream's watermark needs as a key."""
    counted = (
        _page_views(tables[streamed_views.CLICKS], "product_id", "tier", "dwell_ms")
        .groupBy("minute", "product_id", "tier")
        .agg(F.count("*").alias("views"), F.sum("dwell_ms").alias("dwell_ms"))
        .withColumn("window_start", _time("minute"))
        .withColumn("window_end", _time(F.col("minute") + 1))
        .withColumn("late_views", F.lit(0))
        .withColumn("late_dwell_ms", F.lit(0))
        .withColumn("day", F.to_date("window_start"))
    )
    return counted.select(*columns(table_named(streamed_views.TABLE)))


def trending(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Rank the products of whole windows: the stream ranks what changed against what is there, which takes a table.

    The five windows of an event are added up from counts per minute: copies of counts, not of events. All windows that
    start in the same hour are counted and ranked in one partition, so rows are shuffled once; the last four minutes of
    an hour's windows are in the hour after, and are copied to both.
    """
    first, last = (F.floor((F.col("minute") - back) / BLOCK) for back in (SPAN - 1, 0))
    blocks = F.when(first == last, F.array(last)).otherwise(F.array(first, last))
    views = _page_views(tables[streamed_trending.CLICKS], "product_id").withColumn("block", F.explode(blocks))
    minutes = views.repartition("block").groupBy("block", "minute", "product_id").agg(F.count("*").alias("views"))
    starts = F.sequence(
        F.greatest(F.col("minute") - (SPAN - 1), F.col("block") * BLOCK),
        F.least(F.col("minute"), F.col("block") * BLOCK + (BLOCK - 1)),
    )
    windows = (
        minutes.withColumn("start", F.explode(starts))
        .groupBy("block", "start", "product_id")
        .agg(F.sum("views").alias("views"))
    )
    place = Window.partitionBy("block", "start").orderBy(F.desc("views"), "product_id")
    ranked = (
        windows.withColumn("rank", F.row_number().over(place))
        .filter(F.col("rank") <= streamed_trending.RANKS)
        .withColumn("window_start", _time("start"))
        .withColumn("window_end", _time(F.col("start") + SPAN))
        .withColumn("day", F.to_date("window_start"))
    )
    return ranked.select(*columns(table_named(streamed_trending.TABLE)))


def _page_views(clicks: DataFrame, *names: str) -> DataFrame:
    """Select page views with the minute in which each happened."""
    minute = F.expr(f"(unix_micros(event_time) - pmod(unix_micros(event_time), {MICROSECONDS})) div {MICROSECONDS}")
    return clicks.filter("type = 'page_view'").select(minute.alias("minute"), *names)


def _time(minute: str | Column) -> Column:
    """Return the time at which a minute begins."""
    return F.timestamp_micros((F.col(minute) if isinstance(minute, str) else minute) * MICROSECONDS)
