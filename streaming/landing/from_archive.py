"""Landing from the archive: a replay lands the records of bronze.events in micro-batches of its own, by offset.

Not as a stream of the table: that needs its first commit, and a compacted archive has lost the order of the others. The
micro-batches are fixed before the first one, so that a replay that was interrupted repeats the same ones.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from config.settings import Settings
from lake import ledger
from lake.batch import Batch
from lake.location import Location, table_location
from lake.tables import create_missing
from streaming.job import LOG, Job
from streaming.processing import compile_large
from streaming.set_aside import mark

TABLE = "bronze.events"
EPOCH = 1
Ranges = dict[tuple[str, int], tuple[int, int]]
"""By topic and partition: the first offset, and the one after the last."""


@dataclass(frozen=True)
class Cut:
    """The archive, cut into micro-batches of about equally many offsets; each has its share of every partition."""

    ends: dict[tuple[str, int], int]
    batches: int

    def ranges(self, batch: int) -> Ranges:
        """Return the offsets of one micro-batch."""
        found = {
            partition: (end * batch // self.batches, end * (batch + 1) // self.batches)
            for partition, end in self.ends.items()
        }
        return {partition: (first, end) for partition, (first, end) in found.items() if first < end}


def land(
    spark: SparkSession,
    settings: Settings,
    job: Job,
    generation: int,
    checkpoint: Location,
    on_batch: Callable[[int, int, int], bool],
) -> None:
    """Land the archive into a generation, from where it was interrupted.

    on_batch: called before each micro-batch with its number, the records landed so far, and those to land; returns
    whether to go on.
    """
    create_missing(job.writes, settings, generation)
    cut = _cut(spark, settings, job, checkpoint)
    entries = [row for row in ledger.entries(settings, [job.name]) if row["generation"] == generation]
    first = max((row["batch"] for row in entries), default=-1) + 1
    total, landed = sum(cut.ends.values()), 0
    for number in range(cut.batches):
        ranges = cut.ranges(number)
        size = sum(end - start for start, end in ranges.values())
        if number >= first:
            if not on_batch(number, landed, total):
                return
            records = spark.read.format("delta").load(str(table_location(settings, TABLE))).filter(_within(ranges))
            compile_large(spark, size)
            rows = job.apply({LOG: mark(records, settings)})
            job.process(Batch(rows, job.name, number, EPOCH, generation, settings, records=size, is_replay=True))
        landed += size
    on_batch(cut.batches, landed, total)


def _cut(spark: SparkSession, settings: Settings, job: Job, checkpoint: Location) -> Cut:
    """Cut the archive as it is now, or return the cut of the replay that was interrupted."""
    file = checkpoint / "archive.json"
    values: dict[str, Any] | None = file.read_json("lakehouse replay list, then: lakehouse replay drop GENERATION")
    if values is None:
        archive = spark.read.format("delta").load(str(table_location(settings, TABLE)))
        ends = archive.filter(F.col("topic").isin(*job.topics)).groupBy("topic", "partition").agg(F.max("offset") + 1)
        found = sorted(tuple(row) for row in ends.collect())
        batches = -(-sum(end for *_, end in found) // settings.streaming.records_per_batch)
        values = {"ends": found, "batches": batches}
        file.write(json.dumps(values))
    return Cut({(topic, partition): end for topic, partition, end in values["ends"]}, values["batches"])


def _within(ranges: Ranges) -> str:
    conditions = (
        f"(topic = '{topic}' and partition = {partition} and offset >= {first} and offset < {end})"
        for (topic, partition), (first, end) in ranges.items()
    )
    return " or ".join(conditions) or "false"
