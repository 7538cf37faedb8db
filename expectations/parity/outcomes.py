"""Outcomes: the rows of a side in which it has set records of a topic aside, and the first copies that they name."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from config.declarations import Table, table_named
from expectations.parity.sides import Side
from streaming.landing.write import SIDE_TABLES

RECORD = ("partition", "offset")
OUTCOME = "outcome"
BROKEN = "broken_rules"
"""The rules for which a record is in quarantine."""

LATE_TABLE = "silver.late"


def side_rows(side: Side, table: Table, outcome: str, records: DataFrame) -> DataFrame:
    """Return some records of a topic, few of them, as a side has set them aside."""
    (name,) = (each for each, of in SIDE_TABLES.items() if of == outcome)
    if name not in side.tables:
        return records.sparkSession.createDataFrame([], table_named(name).ddl)
    of_topic = side.frame(name).filter(F.col("topic") == F.lit(table.topic))
    return of_topic.join(F.broadcast(records.select(*RECORD)), list(RECORD), "left_semi")


def firsts(copies: DataFrame, side: Side, table: Table) -> DataFrame:
    """Join records with the other record that they name as the first of their id: `copy` and `first`.

    The first one is in silver or among the late records of the same side.
    """
    columns = (*RECORD, "event_id", "event_time", "content_hash")
    found = side.frame(table.name).select(*columns)
    if LATE_TABLE in side.tables:
        late = side.frame(LATE_TABLE).filter(F.col("topic") == F.lit(table.topic))
        found = found.unionByName(late.select(*columns))
    named = F.struct(*(F.col(f"first.{column}") for column in RECORD))
    same = (F.col("copy.duplicate_of") == named) & (F.col("copy.event_id") == F.col("first.event_id"))
    other = F.struct(*(F.col(f"copy.{column}") for column in RECORD)) != named
    # The copies are broadcast, as they are few.
    return found.alias("first").join(F.broadcast(copies).alias("copy"), same & other)
