"""Writing Delta tables so that a batch written twice is there once."""

from collections.abc import Mapping
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
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


def append(batch: Batch, name: str, rows: pa.Table | DataFrame) -> None:
    """Append a batch's rows to a table, once: an (application, batch) that the table has seen is passed over.

    Rows that are here are committed by deltalake: milliseconds, where a Spark write takes a second whatever its size.
    """
    table = table_named(name)
    if isinstance(rows, pa.Table):
        here = rows.select(list(table.stored))
        path = table.path(batch.settings.warehouse, batch.generation)
        append_once(path, _new(batch, table, here) if batch.landed else here, batch.application, batch.id)
    else:
        there = rows.select(*columns(table))
        _append_large(batch, table, _without_landed(batch, table, there) if batch.landed else there)
    failpoint(f"after {name}")


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
        commit_properties=_once(application, version),
    )


def upsert(
    batch: Batch,
    name: str,
    rows: pa.Table,
    *,
    changes: Mapping[str, str] | None = None,
    replaces: str | None = None,
    once: tuple[str, int] | None = None,
) -> int:
    """Put rows in place of those with the same key (t, the table's; s, these), in one commit, once; count them.

    changes: what a row that is there becomes, by column; the new row by default. replaces: when it does; always.
    once: the application and its version, where they are not the batch's.
    """
    table = table_named(name)
    target = deltalake.DeltaTable(str(table.path(batch.settings.warehouse, batch.generation)))
    application, version = once or (batch.application, batch.id)
    seen = target.transaction_version(application)
    if not len(rows) or (seen is not None and seen >= version):
        return 0
    matches = [f"t.{key} = s.{key}" for key in table.key]
    for column in table.partitioned_by:
        days = ", ".join(f"'{day}'" for day in sorted(set(rows[column].to_pylist())))
        matches.append(f"t.{column} in ({days})")  # said outright, so that other partitions are not even looked at
    merge = target.merge(
        rows,
        predicate=" and ".join(matches),
        source_alias="s",
        target_alias="t",
        commit_properties=_once(application, version),
    )
    changes = changes or {column: f"s.{column}" for column in table.stored}
    merge.when_matched_update(dict(changes), predicate=replaces).when_not_matched_insert_all().execute()
    failpoint(f"after {name}")
    return len(rows)


def there(batch: Batch, name: str, which: pc.Expression) -> pa.Table:
    """Read some rows of a table as it is now, without Spark."""
    path = table_named(name).path(batch.settings.warehouse, batch.generation)
    return deltalake.DeltaTable(str(path)).to_pyarrow_dataset().to_table(filter=which, use_threads=False)


def best(rows: pa.Table, key: list[str], order: list[tuple[str, str]]) -> pa.Table:
    """Keep, of the rows of each key, the first in the given order."""
    ordered = rows.sort_by([*((name, "ascending") for name in key), *order])
    keys = ordered.select(key).to_pylist()
    first = [number == 0 or row != keys[number - 1] for number, row in enumerate(keys)]
    return ordered.filter(pa.array(first, pa.bool_()))


def _once(application: str, version: int) -> deltalake.CommitProperties:
    return deltalake.CommitProperties(app_transactions=[deltalake.Transaction(application, version)])


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


def _new(batch: Batch, table: Table, rows: pa.Table) -> pa.Table:
    """Leave out rows that an unfinished batch before a reset has written."""
    origin = [name for name in ORIGIN if name in table.columns]
    landed = there(batch, table.name, pc.field("offset") <= max(batch.landed.values())).select(origin)
    known = {tuple(row.values()) for row in landed.to_pylist()}
    return rows.filter(pa.array([tuple(row.values()) not in known for row in rows.select(origin).to_pylist()]))


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
