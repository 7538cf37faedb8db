"""The inputs of one micro-batch, from its checkpoint: offsets of the log or commits of tables; in words and as rows."""

import json
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from config.errors import LakehouseError
from config.settings import Settings
from lake.generations import TableGenerations
from lake.location import Location, table_location
from streaming.checkpoint import Checkpoint
from streaming.job import LOG, Job
from streaming.landing.archive import between
from streaming.landing.arrival import as_archived
from streaming.set_aside import mark

Ranges = dict[tuple[str, int], tuple[int, int]]
"""By topic (or input table) and Kafka partition: the first offset, and the one after the last."""


def describe(job: Job, checkpoint: Checkpoint, batch: int, settings: Settings, target: TableGenerations) -> str:
    """Name what a batch reads."""
    if _reads_log(job, target):
        return ", ".join(
            range_words(partition, ends) for partition, ends in checkpoint.offsets(batch).items() if _some(ends)
        )
    commits = _commits(job, checkpoint, batch, settings, target)
    return ", ".join(f"commits {first}-{last} of {name}" for name, (first, last) in commits.items())


def range_words(partition: tuple[str, int], ends: tuple[int, int]) -> str:
    """Name a range of offsets."""
    return f"{partition[0]}/{partition[1]} offsets {ends[0]}-{ends[1] - 1}"


class BatchInputs:
    """The rows that one batch reads, as bounded frames that can be cut by offset."""

    def __init__(
        self,
        job: Job,
        checkpoint: Checkpoint,
        batch: int,
        settings: Settings,
        target: TableGenerations,
        spark: SparkSession,
    ) -> None:
        """Find the inputs of a batch."""
        self._spark, self._settings, self._log = spark, settings, _reads_log(job, target)
        self._tables: dict[str, DataFrame] = {}
        if self._log:
            self.ranges = {partition: ends for partition, ends in checkpoint.offsets(batch).items() if _some(ends)}
            return
        for name in job.reads:
            location = table_location(settings, name, target.of_table(name))
            commits = _commits(job, checkpoint, batch, settings, target).get(name)
            self._tables[name] = _added(spark, location, commits)
        self.ranges = {
            (name, row["partition"]): (row["first"], row["last"] + 1)
            for name, rows in self._tables.items()
            for row in rows.groupBy("partition")
            .agg(F.min("offset").alias("first"), F.max("offset").alias("last"))
            .collect()
        }

    def frames(self, ranges: Ranges) -> dict[str, DataFrame]:
        """Return the inputs, cut to some ranges."""
        if self._log:
            return {LOG: mark(as_archived(between(self._spark, self._settings, ranges)), self._settings)}
        return {name: rows.filter(_within(name, ranges)) for name, rows in self._tables.items()}


def _reads_log(job: Job, target: TableGenerations) -> bool:
    return bool(job.topics) and target.source == "kafka"


def _some(ends: tuple[int, int]) -> bool:
    return ends[0] < ends[1]


def _commits(
    job: Job, checkpoint: Checkpoint, batch: int, settings: Settings, target: TableGenerations
) -> dict[str, tuple[int, int]]:
    """Return the commits that a batch reads: by table, the first and the last."""
    by_id = checkpoint.commits(batch)
    found = {}
    for name in job.reads or ("bronze.events",):
        location = table_location(settings, name, target.of_table(name))
        if location.is_table() and (commits := by_id.get(str(location.table().metadata().id))):
            found[name] = commits
    return found


def _added(spark: SparkSession, location: Location, commits: tuple[int, int] | None) -> DataFrame:
    """Read the rows that some commits have added, also if their files were compacted since."""
    rows = spark.read.format("delta").load(str(location))
    if commits is None:
        return rows.limit(0)
    if commits[0] == 0:  # everything up to a version; its first commits may have been cleaned up
        return spark.read.format("delta").option("versionAsOf", commits[1]).load(str(location))
    paths = []
    for version in range(commits[0], commits[1] + 1):
        text = (location / "_delta_log" / f"{version:020}.json").read()
        if text is None:
            raise LakehouseError(
                f"Commit {version} of {location} is no longer in the table's log: its rows cannot be searched.",
                "After the cause is fixed, try the batch again: lakehouse stream run JOB --retry",
            )
        actions = [json.loads(line) for line in text.splitlines() if line.strip()]
        paths += [f"{location}/{unquote(each['add']['path'])}" for each in actions if "add" in each]
    if not paths:
        return rows.limit(0)
    return spark.read.schema(rows.schema).option("basePath", str(location)).parquet(*paths)


def _within(name: str, ranges: Ranges) -> str:
    conditions = [
        f"(partition = {partition} and offset >= {first} and offset < {end})"
        for (table, partition), (first, end) in ranges.items()
        if table == name
    ]
    return " or ".join(conditions) or "false"
