"""Late rows: events that arrived too late for their window -> left out, counted next to its totals, or merged in.

The setting `streaming.late` chooses the strategy of each job. Totals of events on time come from Spark's state; totals
of late events come from silver.late, where landing wrote them. Both are totals per window, never increments, so a
second write changes nothing. Late rows are few: whenever new ones arrive, all late totals are recomputed.
"""

from collections.abc import Callable, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from config.declarations import table_named
from config.errors import LakehouseError
from lake.batch import Batch
from lake.tables import read, upsert
from streaming.landing.contract import contracts
from streaming.landing.parse import landing_columns, parse

TABLE = "silver.late"
LateParts = Mapping[str, str]
"""By total, the column that holds its late part."""


def upsert_windows(
    batch: Batch, name: str, rows: pa.Table, parts: LateParts, late: Callable[[SparkSession, Batch], DataFrame]
) -> int:
    """Upsert the windows of a batch, and their late parts by the job's strategy; return the number of rows written.

    late: computes the same windows from late events alone.
    """
    strategy = batch.settings.streaming.late.get(batch.job, "leave")
    merged = strategy == "merge"
    changes = {
        column: f"s.{column} + t.{parts[column]}" if merged and column in parts else f"s.{column}"
        for column in table_named(name).stored
        if column not in parts.values()
    }
    written = upsert(batch, name, rows, changes=changes)
    if strategy == "leave":
        return written
    return written + _upsert_late_parts(batch, name, parts, late, merged=merged)


def _upsert_late_parts(
    batch: Batch,
    name: str,
    parts: LateParts,
    late: Callable[[SparkSession, Batch], DataFrame],
    *,
    merged: bool,
) -> int:
    version = batch.location(TABLE).table().version()
    if version == 0:
        return 0
    rows = late(batch.rows.sparkSession, batch).toArrow()
    for total, part in parts.items():
        rows = rows.set_column(rows.column_names.index(part), part, rows[total])
        if not merged:
            zeros = pa.array([0] * len(rows), pa.int64())
            rows = rows.set_column(rows.column_names.index(total), total, zeros)
    changes = {part: f"s.{part}" for part in parts.values()}
    if merged:
        changes |= {total: f"t.{total} - t.{part} + s.{part}" for total, part in parts.items()}
    return upsert(batch, name, rows, changes=changes, once=(f"{batch.txn_app_id}/late", version))


def add_late_parts(rows: DataFrame, late: DataFrame, key: list[str], parts: LateParts, *, merged: bool) -> DataFrame:
    """Add to windows of events on time the late parts of the same windows of late events, as `upsert_windows` does."""
    late = late.select(*(F.col(name).alias(name if name in key else f"late of {name}") for name in late.columns))
    joined = rows.join(late, key, "full_outer")
    values = {name: F.coalesce(F.col(name), F.col(f"late of {name}")) for name in rows.columns if name not in key}
    for total, part in parts.items():
        on_time, too_late = (F.coalesce(F.col(name), F.lit(0)) for name in (total, f"late of {total}"))
        values |= {part: too_late, total: on_time + too_late if merged else on_time}
    return joined.select(*(values.get(name, F.col(name)).alias(name) for name in rows.columns))


def late_events(spark: SparkSession, batch: Batch, topic: str) -> DataFrame:
    """Read the late events of a topic, without duplicates, with the columns of its silver table."""
    return typed_late(read(spark, TABLE, batch.settings, batch.generation_of(TABLE)), topic)


def typed_late(late: DataFrame, topic: str) -> DataFrame:
    """Parse the late records of a topic again, without duplicates."""
    records = late.filter((F.col("topic") == topic) & F.col("duplicate_of").isNull()).select(
        *("topic", "partition", "offset", "key", "value"),
        F.lit(None).cast("array<struct<key:string,value:binary>>").alias("headers"),
        "arrival_time",
    )
    (contract,) = (contract for contract in contracts() if contract.topic.name == topic)
    return parse(records).select(*landing_columns(contract))


def refuse_unknown(configured: Mapping[str, str], able: list[str]) -> None:
    """Raise an error for a strategy that its job cannot apply; the error names the jobs that can."""
    for job, strategy in configured.items():
        if job not in able and strategy != "leave":
            raise LakehouseError(
                f"streaming.late: '{job}' can only leave late rows out; '{strategy}' is for: {', '.join(able)}.",
                "Correct streaming.late in the settings.",
            )
