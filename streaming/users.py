"""Versions of a changing thing: each change is true from its event time until the next one."""

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from config.declarations import Table
from streaming.failpoints import failpoint
from streaming.job import Batch
from streaming.tables import columns, read


def versions(changes: DataFrame, key: str) -> DataFrame:
    """Close each version of a key where the next one begins; the log's order breaks ties."""
    order = Window.partitionBy(key).orderBy("valid_from", "partition", "offset")
    return changes.withColumn("valid_to", F.lead("valid_from").over(order))


def merge_versions(batch: Batch, table: Table, changes: DataFrame) -> None:
    """Bring new changes into the table of versions. A merge that is repeated changes nothing."""
    key = str(table.versioned_by)
    spark = batch.rows.sparkSession
    path = str(table.path(batch.settings.warehouse, batch.generation))
    touched = read(spark, table.name, batch.settings.warehouse, batch.generation).join(
        F.broadcast(changes.select(key).distinct()), key, "left_semi"
    )
    known = touched.select(*columns(table))
    fresh = changes.join(known, ["partition", "offset"], "left_anti").select(*columns(table))
    (
        DeltaTable.forPath(spark, path)
        .alias("known")
        .merge(
            versions(known.unionByName(fresh), key).alias("new"),
            "known.partition = new.partition and known.offset = new.offset",
        )
        .whenMatchedUpdate("not (known.valid_to <=> new.valid_to)", {"valid_to": "new.valid_to"})
        .whenNotMatchedInsertAll()
        .execute()
    )
    failpoint(f"after {table.name}")
