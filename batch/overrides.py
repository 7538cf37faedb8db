"""What the batch layer does another way than the stream, each with the reason; everything else is the jobs' own."""

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from config.declarations import table_named
from lake.tables import columns
from streaming.roles.aggregator.trending import CLICKS, RANKS, TABLE, views_in_five_minutes
from streaming.roles.enricher import attach_tier
from streaming.roles.materializer import order_status


def trending(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Rank the products of whole windows: the stream ranks what changed against what is there, which takes a table."""
    place = Window.partitionBy("window_start").orderBy(F.desc("views"), "product_id")
    ranked = views_in_five_minutes(tables[CLICKS]).withColumn("rank", F.row_number().over(place))
    return ranked.filter(F.col("rank") <= RANKS).select(*columns(table_named(TABLE)))


LOOKUP_TABLES = {"clicks_enriched": ("silver.users",)}
"""Tables that a job looks up while it runs, and that are one of its inputs here."""

BATCH_OVERRIDES: dict[str, Callable[[Mapping[str, DataFrame]], DataFrame]] = {
    "trending": trending,
    # The stream joins each micro-batch with the users known by then; here all are known.
    "clicks_enriched": lambda tables: attach_tier(tables["silver.clicks"], tables["silver.users"]),
    # The stream adds each micro-batch to the table; here there is one batch.
    "order_status": lambda tables: order_status(tables["silver.orders"]),
}
