"""Writing Delta tables so that a batch written twice is there once."""

from pathlib import Path

import deltalake
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from config.declarations import Table, table_named
from streaming.failpoints import failpoint
from streaming.job import Batch

# What tells a record of the log from every other, wherever it went.
ORIGIN = ("topic", "partition", "offset")


def create_missing(names: tuple[str, ...], warehouse: Path, generation: int) -> None:
    """Create the declared tables that do not exist yet, empty, so that readers find them from the start."""
    for name in names:
        table = table_named(name)
        path = table.path(warehouse, generation)
        if not (path / "_delta_log").exists():
            # deltalake takes milliseconds for what takes a Spark session seconds; the formats are the same.
            deltalake.DeltaTable.create(
                str(path),
                schema=deltalake.Schema.from_json(StructType.fromDDL(table.ddl).json()),
                mode="ignore",
                partition_by=table.partitioned_by,
                name=name.replace(".", "_"),
                description=table.description,
            )


def append(batch: Batch, name: str, rows: DataFrame, count: int) -> None:
    """Append a batch's rows to a table, once: an (application, batch) that the table has seen is passed over."""
    table = table_named(name)
    rows = rows.select(*columns(table))
    if batch.landed:
        rows = _without_landed(batch, table, rows)
    if count <= batch.settings.streaming.small_append_rows:
        _append_small(batch, table, rows)
    else:
        _append_large(batch, table, rows)
    failpoint(f"after {name}")


def _append_small(batch: Batch, table: Table, rows: DataFrame) -> None:
    """Commit a few rows by deltalake: milliseconds, where a Spark write takes a second whatever its size."""
    path = table.path(batch.settings.warehouse, batch.generation)
    append_once(path, rows.toArrow(), batch.application, batch.id)


def append_once(path: Path, rows: pa.Table, application: str, version: int) -> None:
    """Append rows unless the table has seen this version of the application; the same promise as Delta's own."""
    if deltalake.DeltaTable.is_deltatable(str(path)):
        seen = deltalake.DeltaTable(str(path)).transaction_version(application)
        if seen is not None and seen >= version:
            return
    deltalake.write_deltalake(
        str(path),
        rows,
        mode="append",
        schema_mode="merge",
        commit_properties=deltalake.CommitProperties(app_transactions=[deltalake.Transaction(application, version)]),
    )


def _append_large(batch: Batch, table: Table, rows: DataFrame) -> None:
    writer = rows.write.format("delta").mode("append")
    if table.partitioned_by:
        writer = writer.partitionBy(*table.partitioned_by)
    (
        writer.option("txnAppId", batch.application)
        .option("txnVersion", batch.id)
        .option("mergeSchema", True)
        .save(str(table.path(batch.settings.warehouse, batch.generation)))
    )


def _without_landed(batch: Batch, table: Table, rows: DataFrame) -> DataFrame:
    origin = [name for name in ORIGIN if name in table.columns]
    last = max(batch.landed.values())
    landed = read(rows.sparkSession, table.name, batch.settings.warehouse, batch.generation).filter(
        F.col("offset") <= last
    )
    return rows.join(landed.select(*origin), origin, "left_anti").select(*columns(table))


def columns(table: Table) -> list[Column]:
    """Give the stored columns in their order and types: the table's contract, as a select."""
    return [F.col(f"`{name}`").cast(column.type).alias(name) for name, column in table.stored.items()]


def read(spark: SparkSession, name: str, warehouse: Path, generation: int = 1) -> DataFrame:
    """Read a table as it is now; of a versioned one, each version ends where the next of its key begins."""
    table = table_named(name)
    rows = spark.read.format("delta").load(str(table.path(warehouse, generation)))
    return rows.withColumn("valid_to", F.expr(table.valid_to)) if table.valid_to else rows
