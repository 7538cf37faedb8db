"""Writing Delta tables so that a batch written twice is there once."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from config.declarations import Table, table_named
from config.failpoints import failpoint
from lake.batch import Batch
from lake.ordering import Order, first_per_key, precedes

# What tells a record of the log from every other, wherever it went.
ORIGIN = ("topic", "partition", "offset")
_ARROW = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}


def create_missing(names: Sequence[str], warehouse: Path, generation: int = 1) -> None:
    """Create the declared tables that do not exist yet, empty, so that readers find them from the start."""
    for name in names:
        table = table_named(name)
        path = table.path(warehouse, generation)
        if not table_exists(path):
            # deltalake takes milliseconds for what takes a Spark session seconds; the formats are the same.
            deltalake.DeltaTable.create(
                str(path),
                schema=deltalake.Schema.from_json(StructType.fromDDL(table.ddl).json()),
                mode="ignore",
                partition_by=table.partitioned_by,
                name=name.replace(".", "_"),
                description=table.description,
            )


def table_exists(path: Path) -> bool:
    """Tell whether a table is there; a log without a commit, as a kill may leave it, is none that anyone can read."""
    return path.is_dir() and deltalake.DeltaTable.is_deltatable(str(path))


def append(batch: Batch, name: str, rows: pa.Table | DataFrame) -> None:
    """Append a batch's rows to a table, once: an (application, batch) that the table has seen is passed over.

    Rows that are here are committed by deltalake: milliseconds, where a Spark write takes a second whatever its size.
    """
    table = table_named(name)
    if isinstance(rows, pa.Table):
        here = rows.select(list(table.stored))
        new = _new(batch, table, here) if batch.already_landed else here
        append_once(batch.path(name), new, batch.txn_app_id, batch.id)
    else:
        frame = rows.select(*columns(table))
        _append_large(batch, table, _without_landed(batch, table, frame) if batch.already_landed else frame)
    failpoint(f"after {name}")


def try_collect(rows: DataFrame) -> pa.Table | None:
    """Bring rows to the driver, unless they are more than Spark lets in: few may be many bytes."""
    try:
        return rows.toArrow()
    except Exception as error:
        if "spark.driver.maxResultSize" in str(error):
            return None
        raise


def append_once(path: Path, rows: pa.Table, application: str, version: int) -> None:
    """Append rows unless the table has seen this version of the application; the same promise as Delta's own."""
    if table_exists(path) and already_committed(deltalake.DeltaTable(str(path)), application, version):
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
    target = deltalake.DeltaTable(str(batch.path(name)))
    application, version = once or (batch.txn_app_id, batch.id)
    if not len(rows) or already_committed(target, application, version):
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


def upsert_first_per_key(batch: Batch, name: str, rows: pa.Table, order: Order) -> int:
    """Upsert rows of which, per key, only the first in an order is kept, within the batch and against the table."""
    return upsert(batch, name, first_per_key(rows, table_named(name).key, order), replaces=precedes(order))


def read_batch_table(batch: Batch, name: str, which: pc.Expression) -> pa.Table:
    """Read some rows of a batch's table as it is now."""
    return read_arrow(batch.path(name), which)


def read_arrow(path: Path, which: pc.Expression | None = None, columns: Sequence[str] | None = None) -> pa.Table:
    """Read rows of a table without Spark, which takes a second for each; none where there is no table."""
    if not table_exists(path):
        return pa.table({})
    dataset = deltalake.DeltaTable(str(path)).to_pyarrow_dataset()
    # One thread: with more, the process now and then aborts at its end.
    return dataset.to_table(columns=list(columns) if columns else None, filter=which, use_threads=False)


def scan_arrow(
    path: Path, columns: dict[str, pc.Expression], which: pc.Expression | None = None
) -> Iterator[pa.RecordBatch]:
    """Read what columns make of a table's rows, some rows at a time; none where there is no table."""
    if table_exists(path):
        dataset = deltalake.DeltaTable(str(path)).to_pyarrow_dataset()
        yield from dataset.to_batches(columns=columns, filter=which, use_threads=False)


def arrow_schema(table: Table) -> pa.Schema:
    """Give a table's stored columns as Arrow has them."""
    return pa.schema([(name, _ARROW[column.type]) for name, column in table.stored.items()])


def already_committed(table: deltalake.DeltaTable, application: str, version: int) -> bool:
    """Tell whether a table remembers this version of the application, or a later one."""
    last = table.transaction_version(application)
    return last is not None and last >= version


def _once(application: str, version: int) -> deltalake.CommitProperties:
    return deltalake.CommitProperties(app_transactions=[deltalake.Transaction(application, version)])


def _append_large(batch: Batch, table: Table, rows: DataFrame) -> None:
    writer = rows.write.format("delta").mode("append")
    if table.partitioned_by:
        writer = writer.partitionBy(*table.partitioned_by)
    (
        writer.option("txnAppId", batch.txn_app_id)
        .option("txnVersion", batch.id)
        .option("mergeSchema", True)
        .save(str(batch.path(table.name)))
    )


def _new(batch: Batch, table: Table, rows: pa.Table) -> pa.Table:
    """Leave out rows that are there: of an unfinished batch before a reset, or archived by another generation."""
    origin = [name for name in ORIGIN if name in table.columns]
    reaches = (pc.field("offset") <= max(batch.already_landed.values())) & (
        pc.field("offset") >= pc.scalar(pc.min(rows["offset"]))
    )
    known = {tuple(row.values()) for row in read_batch_table(batch, table.name, reaches).select(origin).to_pylist()}
    return rows.filter(pa.array([tuple(row.values()) not in known for row in rows.select(origin).to_pylist()]))


def _without_landed(batch: Batch, table: Table, rows: DataFrame) -> DataFrame:
    origin = [name for name in ORIGIN if name in table.columns]
    landed = read(rows.sparkSession, table.name, batch.settings.warehouse, batch.generation_of(table.name)).filter(
        F.col("offset") <= max(batch.already_landed.values())
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
