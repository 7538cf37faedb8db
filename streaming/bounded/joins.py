"""Bounded joins: clicks with the versions of users, and orders with the cart events before them."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from streaming.roles.enricher import attach_tier
from streaming.roles.joiner import conversions as streamed_conversions

BROADCAST_BYTES = 64 * 2**20
"""A dimension of this size, by Spark's estimate, is joined without shuffling or sorting the events."""


def clicks_enriched(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Join all clicks with all users: the stream joins each micro-batch with the users known by then.

    Users are few and clicks are many: a broadcast join neither shuffles nor sorts the clicks.
    """
    users = tables["silver.users"]
    return attach_tier(tables["silver.clicks"], F.broadcast(users) if size(users) <= BROADCAST_BYTES else users)


def conversions(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Join orders with the cart events before them, day by day."""
    return streamed_conversions.candidates(tables[streamed_conversions.CLICKS], tables[streamed_conversions.ORDERS])


def size(rows: DataFrame) -> int:
    """Return Spark's estimate of the size of a frame in bytes."""
    plan: Any = rows._jdf.queryExecution().optimizedPlan()
    return int(str(plan.stats().sizeInBytes()))
