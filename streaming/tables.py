"""Writing Delta tables so that a batch written twice is there once."""

from pathlib import Path

import deltalake
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from config.declarations import Table, table_named
from streaming.job import Batch
from streaming.failpoints import failpoint


def create_missing(names: tuple[str, ...], warehouse: Path, generation: int) -> None:
    """Create the declared tables that do not exist yet, empty, so that readers find them from the start."""
    for name in names:
        table = table_named(name)
        path = table.path(warehouse, generation)
        if not (path / "_delta_log").exists():
            # deltalake takes milliseconds for what takes a Spark session seconds; the formats are the same.
            deltalake.DeltaTable.create(
                str(path),
                schema=deltalake.Schema.from_json(_schema(table).json()),
                mode="ignore",
                partition_by=table.partitioned_by,
                name=name.replace(".", "_"),
                description=table.description,
            )


def append(batch: Batch, name: str, rows: DataFrame) -> None:
    """Append a batch's rows to a table, once: Delta skips a (application, version) that it has seen."""
    table = table_named(name)
    application = f"{batch.job}/g{batch.generation}/e{batch.epoch}"
    rows = rows.select(*columns(table))
    if batch.resumes:
        rows = _without_landed(batch, table, rows)
    writer = rows.write.format("delta").mode("append")
    if table.partitioned_by:
        writer = writer.partitionBy(*table.partitioned_by)
    (
        writer.option("txnAppId", application)
        .option("txnVersion", batch.id)
        .option("mergeSchema", True)
        .save(str(table.path(batch.settings.warehouse, batch.generation)))
    )
    failpoint(f"after {name}")


def _without_landed(batch: Batch, table: Table, rows: DataFrame) -> DataFrame:
    origin = [name for name in ("topic", "partition", "offset") if name in table.columns]
    landed = read(rows.sparkSession, table.name, batch.settings.warehouse, batch.generation).select(*origin)
    return rows.join(landed, origin, "left_anti").select(*columns(table))


def columns(table: Table) -> list[Column]:
    """Give the declared columns in their order and types: the table's contract, as a select."""
    return [F.col(f"`{name}`").cast(column.type).alias(name) for name, column in table.columns.items()]


def read(spark: SparkSession, name: str, warehouse: Path, generation: int = 1) -> DataFrame:
    """Read a table as it is now."""
    return spark.read.format("delta").load(str(table_named(name).path(warehouse, generation)))


def _schema(table: Table) -> StructType:
    return StructType.fromDDL(table.ddl)
