"""Late rows: events that came too late for a window -> left aside, counted beside its totals, or merged into them.

Which of these a job does is configured (`streaming.windows.late`). The totals of events in time come from Spark's state, those
of late ones from silver.late, where landing has put them. Both are whole numbers for a window, never additions to what
is there, so to write them again changes nothing. Late rows are few: whenever there are new ones, all are gone through.
"""

from collections.abc import Callable, Mapping

import deltalake
import pyarrow as pa
from lake.batch import Batch
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from config.declarations import table_named
from config.errors import LakehouseError
from lake.tables import read, upsert
from streaming.landing.parse import contracts, landing_columns, parse

TABLE = "silver.late"
Save = Callable[[Batch, pa.Table], int]


def minding_late(name: str, measures: Mapping[str, str], late: Callable[[SparkSession, Batch], DataFrame]) -> Save:
    """Make a way to save windows that minds late rows.

    measures: by total, the column for its late part. late: the same windows, computed of late events alone.
    """
    parts = set(measures.values())

    def save(batch: Batch, rows: pa.Table) -> int:
        strategy = batch.settings.streaming.late.get(batch.job, "leave")
        merged = strategy == "merge"
        changes = {
            column: f"s.{column} + t.{measures[column]}" if merged and column in measures else f"s.{column}"
            for column in table_named(name).stored
            if column not in parts
        }
        written = upsert(batch, name, rows, changes=changes)
        return written if strategy == "leave" else written + add_late(batch, merged=merged)

    def add_late(batch: Batch, *, merged: bool) -> int:
        source = deltalake.DeltaTable(str(batch.path(TABLE)))
        once = (f"{batch.txn_app_id}/late", source.version())
        if source.version() == 0:
            return 0
        rows = late(batch.rows.sparkSession, batch).toArrow()
        for total, part in measures.items():
            rows = rows.set_column(rows.column_names.index(part), part, rows[total])
            if not merged:
                zeros = pa.array([0] * len(rows), pa.int64())
                rows = rows.set_column(rows.column_names.index(total), total, zeros)
        changes = {part: f"s.{part}" for part in parts}
        if merged:
            changes |= {total: f"t.{total} - t.{part} + s.{part}" for total, part in measures.items()}
        return upsert(batch, name, rows, changes=changes, once=once)

    return save


def late_events(spark: SparkSession, batch: Batch, topic: str) -> DataFrame:
    """Read the late events of a topic, typed as its silver table, each once."""
    return typed_late(read(spark, TABLE, batch.settings.warehouse, batch.generation_of(TABLE)), topic)


def typed_late(late: DataFrame, topic: str) -> DataFrame:
    """Parse the late records of a topic anew, each event once."""
    records = late.filter((F.col("topic") == topic) & F.col("duplicate_of").isNull()).select(
        *("topic", "partition", "offset", "key", "value"),
        F.lit(None).cast("array<struct<key:string,value:binary>>").alias("headers"),
        "arrival_time",
    )
    (contract,) = (contract for contract in contracts() if contract.topic.name == topic)
    return parse(records).select(*landing_columns(contract))


def refuse_unknown(configured: Mapping[str, str], able: list[str]) -> None:
    """Refuse a strategy for a job that has none, naming those that have."""
    for job, strategy in configured.items():
        if job not in able and strategy != "leave":
            raise LakehouseError(
                f"streaming.windows.late: '{job}' can only leave late rows aside; '{strategy}' is for: {', '.join(able)}.",
                "Mend streaming.windows.late in the settings.",
            )
