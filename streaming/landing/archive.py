"""The archive: records that a replay has read further than it reaches -> bronze.events, before its landing goes on.

A replay writes no archive: what is served does. When it is promoted it may have read records that landing had not
archived by then, and goes on after them; so they are copied from the log first.
"""

import json

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from config.declarations import table_named
from config.kafka import Offsets, spark_source_options
from config.settings import Settings
from lake import ledger
from lake.location import table_location
from lake.tables import ORIGIN, columns
from streaming.job import Job

TABLE = "bronze.events"


def fill_gap(spark: SparkSession, settings: Settings, job: Job, generation: int) -> None:
    """Archive what a generation has landed and the archive does not have."""
    path = str(table_location(settings, TABLE))
    archive = spark.read.format("delta").load(path)
    ends = {(topic, partition): end + 1 for topic, partition, end in _ends(archive)}
    landed = ledger.landed_up_to(settings, job.name, generation)
    missing = {place: (ends.get(place, 0), end) for place, end in landed.items() if end > ends.get(place, 0)}
    if missing:
        records = between(spark, settings, missing)
        # Looked up and not only counted on: a run that was killed here has archived them already.
        new = records.join(archive.select(*ORIGIN), list(ORIGIN), "left_anti").select(*columns(table_named(TABLE)))
        new.write.format("delta").mode("append").partitionBy("topic", "arrival_date").save(path)


def between(spark: SparkSession, settings: Settings, ranges: dict[tuple[str, int], tuple[int, int]]) -> DataFrame:
    """Read stretches of the log, by partition, as the archive has them."""
    since = by_topic({place: low for place, (low, _) in ranges.items()})
    until = by_topic({place: high for place, (_, high) in ranges.items()})
    log = (
        spark.read.format("kafka")
        .options(**spark_source_options(settings))
        .option("assign", json.dumps({topic: [int(p) for p in partitions] for topic, partitions in until.items()}))
        .option("startingOffsets", json.dumps(since))
        .option("endingOffsets", json.dumps(until))
        .option("includeHeaders", True)
        .load()
    )
    return log.withColumnRenamed("timestamp", "arrival_time").withColumn("arrival_date", F.to_date("arrival_time"))


def by_topic(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Write offsets as Spark's Kafka source takes them."""
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in offsets.items():
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def _ends(archive: DataFrame) -> list[tuple[str, int, int]]:
    return [tuple(row) for row in archive.groupBy("topic", "partition").agg(F.max("offset")).collect()]
