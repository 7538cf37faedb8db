"""Deletion: records that leave a table, such as those that were redriven out of quarantine."""

import pyarrow as pa
from delta.tables import DeltaTable

from lake.batch import Batch
from lake.tables import ORIGIN


def delete_records(batch: Batch, name: str, origins: pa.Table) -> None:
    """Delete the records of some origins from a table, in one commit."""
    spark = batch.rows.sparkSession
    same = " and ".join(f"t.{column} = s.{column}" for column in ORIGIN)
    # combine_chunks: pyspark 4.1 loses rows when createDataFrame gets an Arrow table of several chunks.
    leaving = spark.createDataFrame(origins.select(list(ORIGIN)).combine_chunks()).alias("s")
    # Merge with Spark: a merge by deltalake writes strings in a type that pyarrow cannot filter.
    table = DeltaTable.forPath(spark, str(batch.location(name))).alias("t")
    table.merge(leaving, same).whenMatchedDelete().execute()
