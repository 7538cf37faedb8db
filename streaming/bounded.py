"""Bounded: a job's table, computed at once from its complete input tables; the batch layer and comparisons use it.

Most transformations are the same for a stream and for bounded tables. The others are overridden here, each with the
reason.
"""

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from config.declarations import table_named
from lake.ordering import first_per_key_spark
from lake.tables import columns
from streaming.job import Job
from streaming.roles.aggregator.trending import CLICKS, RANKS, TABLE, views_in_five_minutes
from streaming.roles.enricher import attach_tier
from streaming.roles.materializer import order_status


def trending(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Rank the products of whole windows: the stream ranks what changed against what is there, which takes a table."""
    place = Window.partitionBy("window_start").orderBy(F.desc("views"), "product_id")
    ranked = views_in_five_minutes(tables[CLICKS]).withColumn("rank", F.row_number().over(place))
    return ranked.filter(F.col("rank") <= RANKS).select(*columns(table_named(TABLE)))


def clicks_enriched(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Join all clicks with all users: the stream joins each micro-batch with the users known by then."""
    return attach_tier(tables["silver.clicks"], tables["silver.users"])


def whole_order_status(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Compute the status of all orders at once: the stream adds each micro-batch to the table."""
    return order_status(tables["silver.orders"])


LOOKUP_TABLES = {"clicks_enriched": ("silver.users",)}
"""Tables that a job looks up while it streams; here they are inputs."""

OVERRIDES: dict[str, Callable[[Mapping[str, DataFrame]], DataFrame]] = {
    "trending": trending,
    "clicks_enriched": clicks_enriched,
    "order_status": whole_order_status,
}


def lookups(job: Job) -> tuple[str, ...]:
    """Return the tables that a job looks up."""
    return LOOKUP_TABLES.get(job.name, ())


def recompute(job: Job, tables: Mapping[str, DataFrame]) -> DataFrame:
    """Compute a job's table from complete inputs: what it reads, and what it looks up."""
    rows = OVERRIDES.get(job.name, job.apply)(tables)
    return first_per_key_spark(rows, table_named(job.writes[0]).key, job.bounded.pick_first_by)
