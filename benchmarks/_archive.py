"""An archive of any size, made without a broker: what landing would have written of a plan's records."""

from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

from config.declarations import table_named
from config.settings import Settings
from lake.location import table_location
from local.simulator.bulk import generated, topic_and_partition
from local.simulator.plan import Plan

ARCHIVE = "bronze.events"


def archive(spark: SparkSession, settings: Settings, plan: Plan) -> int:
    """Write the archive of a plan; give how many records it has."""
    frame, _ = generated(spark, plan)
    in_order = Window.partitionBy("partition_index").orderBy("arrival_ms", "tie")
    rows = frame.select(
        *topic_and_partition(plan),
        (F.row_number().over(in_order) - 1).cast("bigint").alias("offset"),
        F.expr("substring(stamped_key, 9)").alias("key"),
        "value",
        F.expr("cast(null as array<struct<key:string,value:binary>>)").alias("headers"),
        F.timestamp_millis("arrival_ms").alias("arrival_time"),
        F.to_date(F.timestamp_millis("arrival_ms")).alias("arrival_date"),
    )
    table = table_named(ARCHIVE)
    path = str(table_location(settings, table.name))
    rows.write.format("delta").partitionBy(*table.partitioned_by).save(path)
    return spark.read.format("delta").load(path).count()
