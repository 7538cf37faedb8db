"""Delta tables: create, append once, upsert, read. A batch that is written twice is in the table once."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from config.declarations import Table, table_named
from config.failpoints import failpoint
from config.settings import Settings
from lake.batch import Batch
from lake.literals import one_of
from lake.location import Location, table_location
from lake.ordering import Order, first_per_key, precedes

# Identifies a Kafka record in every table.
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


def create_missing(names: Sequence[str], settings: Settings, generation: int = 1) -> None:
    """Create the declared tables that do not exist yet, empty, so that readers can query them from the start."""
    for name in names:
        table = table_named(name)
        location = table_location(settings, name, generation)
        if not location.is_table():
            create(location, table)


def create(location: Location, table: Table) -> None:
    """Create a table, empty; deltalake takes milliseconds where Spark takes seconds, and the format is the same."""
    deltalake.DeltaTable.create(
        str(location),
        schema=deltalake.Schema.from_json(StructType.fromDDL(table.ddl).json()),
        mode="ignore",
        partition_by=table.partitioned_by,
        name=table.name.replace(".", "_"),
        description=table.description,
        configuration=table.properties,
    )


def append(batch: Batch, name: str, rows: pa.Table | DataFrame) -> None:
    """Append the rows of a batch to a table, unless the table has already committed this batch.

    Arrow rows are committed by deltalake in milliseconds; a Spark write takes a second whatever its size.
    """
    table = table_named(name)
    if isinstance(rows, pa.Table):
        here = rows.select(list(table.stored))
        new = _new(batch, table, here) if batch.already_landed else here
        append_once(batch.location(name), new, batch.txn_app_id, batch.id)
    else:
        frame = rows.select(*columns(table))
        _append_large(batch, table, _without_landed(batch, table, frame) if batch.already_landed else frame)
    failpoint(f"after {name}")


def try_collect(rows: DataFrame) -> pa.Table | None:
    """Collect rows on the driver; return None if they exceed `spark.driver.maxResultSize`."""
    try:
        return rows.toArrow()
    except Exception as error:
        if "spark.driver.maxResultSize" in str(error):
            return None
        raise


def append_once(location: Location, rows: pa.Table | pa.RecordBatchReader, application: str, version: int) -> None:
    """Append rows unless the table has committed this version of the application, as Delta's own writer does."""
    if location.is_table() and already_committed(location.table(), application, version):
        return
    deltalake.write_deltalake(
        str(location),
        rows,
        mode="append",
        schema_mode="merge",
        commit_properties=_once(application, version),
    )


def append_next(location: Location, rows: pa.Table, application: str) -> None:
    """Append rows as the next version of the application."""
    append_once(location, rows, application, next_version(application, location))


def next_version(application: str, *locations: Location) -> int:
    """Return the version after the last one that any of the tables has committed for an application.

    Never a time: after the clock has stepped back, Delta would skip the write as one that it has already committed.
    """
    tables = [location.table() for location in locations if location.is_table()]
    return max((table.transaction_version(application) or 0 for table in tables), default=0) + 1


def upsert(
    batch: Batch,
    name: str,
    rows: pa.Table,
    *,
    changes: Mapping[str, str] | None = None,
    replaces: str | None = None,
    once: tuple[str, int] | None = None,
) -> int:
    """Merge rows into a table by key, in one commit, once; return the number of rows merged.

    The row of a key is found in any partition, and moves if its new values belong to another one.
    In SQL, `s` is a new row and `t` the row of the same key in the table.
    changes: new values of a matched row, by column; by default the new row. replaces: the condition to change it.
    once: the transaction id and version, if they are not the batch's.
    """
    table = table_named(name)
    target = batch.location(name).table()
    application, version = once or (batch.txn_app_id, batch.id)
    if not len(rows) or already_committed(target, application, version):
        return 0
    matches = [f"t.{key} = s.{key}" for key in table.key]
    # Literals, so that other partitions are pruned.
    matches += [one_of(f"t.{column}", values) for column, values in _partitions(batch, table, rows).items()]
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
    """Upsert rows, keeping only the first row of each key in the given order, within the batch and in the table."""
    return upsert(batch, name, first_per_key(rows, table_named(name).key, order), replaces=precedes(order))


def read_batch_table(batch: Batch, name: str, which: pc.Expression) -> pa.Table:
    """Read the rows of a batch's table that match a filter."""
    return read_arrow(batch.location(name), which)


def read_arrow(
    location: Location, which: pc.Expression | None = None, columns: Sequence[str] | None = None
) -> pa.Table:
    """Read rows of a table without Spark; return an empty table if it does not exist."""
    if not location.is_table():
        return pa.table({})
    dataset = location.table().to_pyarrow_dataset()
    # One thread: with several, the process sometimes aborts at exit.
    return dataset.to_table(columns=list(columns) if columns else None, filter=which, use_threads=False)


def scan_arrow(
    location: Location, columns: dict[str, pc.Expression], which: pc.Expression | None = None
) -> Iterator[pa.RecordBatch]:
    """Read computed columns of a table in record batches; yield nothing if it does not exist."""
    if location.is_table():
        dataset = location.table().to_pyarrow_dataset()
        yield from dataset.to_batches(columns=columns, filter=which, use_threads=False)


def arrow_schema(table: Table) -> pa.Schema:
    """Return the Arrow schema of a table's stored columns."""
    return pa.schema([(name, _ARROW[column.type]) for name, column in table.stored.items()])


def already_committed(table: deltalake.DeltaTable, application: str, version: int) -> bool:
    """Return whether a table has committed this version of the application, or a later one."""
    last = table.transaction_version(application)
    return last is not None and last >= version


def _partitions(batch: Batch, table: Table, rows: pa.Table) -> dict[str, set[Any]]:
    """Return, by column, the partitions that the keys of some rows are in, or will be."""
    found = {column: set(rows[column].to_pylist()) for column in table.partitioned_by}
    if not table.key_fixes_partition:
        keys = rows.select(table.key)
        for part in scan_arrow(batch.location(table.name), {name: pc.field(name) for name in (*table.key, *found)}):
            there = pa.Table.from_batches([part])
            known = there.select(table.key).cast(keys.schema)  # deltalake writes views of strings
            for column in found:
                same = known.append_column(column, there[column]).join(keys, table.key, join_type="left semi")
                found[column] |= set(same[column].to_pylist())
    return found


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
        .save(str(batch.location(table.name)))
    )


def _new(batch: Batch, table: Table, rows: pa.Table) -> pa.Table:
    """Drop rows that are already in the table, from an unfinished batch before a reset or from another generation."""
    origin = [name for name in ORIGIN if name in table.columns]
    reaches = (pc.field("offset") <= max(batch.already_landed.values())) & (
        pc.field("offset") >= pc.scalar(pc.min(rows["offset"]))
    )
    known = {tuple(row.values()) for row in read_batch_table(batch, table.name, reaches).select(origin).to_pylist()}
    return rows.filter(pa.array([tuple(row.values()) not in known for row in rows.select(origin).to_pylist()]))


def _without_landed(batch: Batch, table: Table, rows: DataFrame) -> DataFrame:
    origin = [name for name in ORIGIN if name in table.columns]
    landed = read(rows.sparkSession, table.name, batch.settings, batch.generation_of(table.name)).filter(
        F.col("offset") <= max(batch.already_landed.values())
    )
    return rows.join(landed.select(*origin), origin, "left_anti").select(*columns(table))


def columns(table: Table) -> list[Column]:
    """Return the stored columns in order, cast to their declared types: the table's contract as a select."""
    return [F.col(f"`{name}`").cast(column.type).alias(name) for name, column in table.stored.items()]


def read(
    spark: SparkSession, name: str, settings: Settings, generation: int = 1, version: int | None = None
) -> DataFrame:
    """Read a table, now or as of a version; in a dimension, a row is valid until the next one of its key begins."""
    table = table_named(name)
    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    rows = reader.load(str(table_location(settings, name, generation)))
    return rows.withColumn("valid_to", F.expr(table.valid_to)) if table.valid_to else rows
