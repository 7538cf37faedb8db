"""Bounded: a job's table, computed at once from its complete input tables; the batch layer and comparisons use it.

Most transformations are the same for a stream and for bounded tables. The others are overridden here, each with the
reason: an operator that a micro-batch needs and a table does not, or one that costs a table several times more than
necessary. Each gives exactly the rows of the job's own transformation.
"""

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame

from config.declarations import table_named
from lake.ordering import first_per_key_spark
from streaming.bounded.joins import clicks_enriched, conversions
from streaming.bounded.sessions import sessions
from streaming.bounded.windows import trending, views_per_minute
from streaming.job import Job
from streaming.roles.materializer import order_status


def whole_order_status(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Compute the status of all orders at once: the stream adds each micro-batch to the table."""
    return order_status(tables["silver.orders"])


LOOKUP_TABLES = {"clicks_enriched": ("silver.users",)}
"""Tables that a job looks up while it streams; here they are inputs."""

OVERRIDES: dict[str, Callable[[Mapping[str, DataFrame]], DataFrame]] = {
    "clicks_enriched": clicks_enriched,
    "conversions": conversions,
    "order_status": whole_order_status,
    "sessions": sessions,
    "trending": trending,
    "views_per_minute": views_per_minute,
}


def lookups(job: Job) -> tuple[str, ...]:
    """Return the tables that a job looks up."""
    return LOOKUP_TABLES.get(job.name, ())


def recompute(job: Job, tables: Mapping[str, DataFrame]) -> DataFrame:
    """Compute a job's table from complete inputs: what it reads, and what it looks up."""
    rows = OVERRIDES.get(job.name, job.apply)(tables)
    return first_per_key_spark(rows, table_named(job.writes[0]).key, job.bounded.pick_first_by)
