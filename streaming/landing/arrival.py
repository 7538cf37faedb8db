"""Arrival: the timestamp of a Kafka record -> its arrival time; none where the timestamp cannot be true.

A producer can set any timestamp. One that is ahead of the reader's clock would close everyone's windows and move the
fence of the batch layer. Whether it can be true is decided once, when landing first reads the record. The archive keeps
the answer, so replay and batch do not depend on the clock (docs/decisions/0028).
"""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from config.declarations import topics
from lake.tables import ORIGIN

EARLIEST = "timestamp'2000-01-01'"
RECORD = ("topic", "partition", "offset", "key", "value", "headers", "arrival_time", "timestamp_ms")


def as_archived(
    log: DataFrame, known: DataFrame | None = None, read_up_to: Mapping[str, int] | None = None
) -> DataFrame:
    """Convert records of Kafka to rows of the archive.

    known: rows of an earlier reading; a timestamp that was not believed then is not believed now.
    read_up_to: by topic, the last offset of that reading; only records beyond it can be too old.
    """
    believed = _plausible(read_up_to or {})
    if known is not None:
        refused = known.filter("arrival_time is null").select(*ORIGIN, F.lit(True).alias("refused"))
        log = log.join(F.broadcast(refused), list(ORIGIN), "left")
        believed = believed & F.col("refused").isNull()
    return log.withColumns(
        {
            "arrival_time": F.when(believed, F.col("timestamp")),
            "timestamp_ms": F.when(~believed, F.unix_millis("timestamp")),
        }
    ).select(*RECORD)


def _plausible(read_up_to: Mapping[str, int]) -> Column:
    """Test that a timestamp is neither ahead of the reader's clock nor, where producers set it, older than declared."""
    implausible = F.lit(False)
    for topic in (topic for topic in topics().values() if topic.archived):
        ahead = int(topic.lateness.max_clock_ahead.total_seconds())
        wrong = F.expr(f"timestamp > current_timestamp() + interval {ahead} seconds")
        if topic.arrival == "producer" and topic.lateness.max_arrival_age is not None:
            age = int(topic.lateness.max_arrival_age.total_seconds())
            old = F.expr(f"timestamp < current_timestamp() - interval {age} seconds")
            wrong = wrong | (old & (F.col("offset") > read_up_to.get(topic.name, -1)))
        implausible = implausible | ((F.col("topic") == topic.name) & wrong)
    return F.expr(f"timestamp >= {EARLIEST}") & ~implausible
