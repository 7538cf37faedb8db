"""Bronze archive: copy Kafka records that only a promoted replay has read -> bronze.events.

Only the served generation's landing writes the archive. A replay may have read records that this landing had not
archived before the promotion. The promoted landing continues after them, so they are copied from Kafka first.
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
from streaming.landing.arrival import as_archived

TABLE = "bronze.events"


def fill_gap(spark: SparkSession, settings: Settings, job: Job, generation: int) -> None:
    """Archive the records that a generation has landed and that bronze does not contain."""
    path = str(table_location(settings, TABLE))
    archive = spark.read.format("delta").load(path)
    ends = {(topic, partition): last + 1 for topic, partition, last in _last_offsets(archive)}
    landed = ledger.landed_up_to(settings, job.name, generation)
    missing = {
        partition: (ends.get(partition, 0), end) for partition, end in landed.items() if end > ends.get(partition, 0)
    }
    if missing:
        # What the replay did not believe must not be believed here.
        known = spark.read.format("delta").load(str(table_location(settings, "silver.quarantine", generation)))
        records = as_archived(between(spark, settings, missing), known).withColumn(
            "arrival_date", F.to_date("arrival_time")
        )
        # The anti-join is needed: an earlier run that was killed here has already archived these records.
        new = records.join(archive.select(*ORIGIN), list(ORIGIN), "left_anti").select(*columns(table_named(TABLE)))
        new.write.format("delta").mode("append").partitionBy("topic", "arrival_date").save(path)


def between(spark: SparkSession, settings: Settings, ranges: dict[tuple[str, int], tuple[int, int]]) -> DataFrame:
    """Read offset ranges from Kafka, by partition."""
    starts = by_topic({partition: start for partition, (start, _) in ranges.items()})
    ends = by_topic({partition: end for partition, (_, end) in ranges.items()})
    return (
        spark.read.format("kafka")
        .options(**spark_source_options(settings))
        .option("assign", json.dumps({topic: [int(p) for p in partitions] for topic, partitions in ends.items()}))
        .option("startingOffsets", json.dumps(starts))
        .option("endingOffsets", json.dumps(ends))
        .option("includeHeaders", True)
        .load()
    )


def by_topic(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Convert offsets to the nested form that Spark's Kafka source expects."""
    nested: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in offsets.items():
        nested.setdefault(topic, {})[str(partition)] = offset
    return nested


def _last_offsets(archive: DataFrame) -> list[tuple[str, int, int]]:
    return [tuple(row) for row in archive.groupBy("topic", "partition").agg(F.max("offset")).collect()]
