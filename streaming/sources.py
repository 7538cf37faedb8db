"""Sources: the streams that a job reads, from the log, from its archive, or from tables. The only readStream."""

from collections.abc import Mapping
from datetime import timedelta

from pyspark.sql import DataFrame, SparkSession

from config.declarations import Table, landed_tables, table_named
from config.kafka import refuse_untrusted_arrivals, spark_source_options
from config.settings import Settings
from lake.generations import TableGenerations
from lake.ledger import disorder
from lake.location import table_location
from streaming.job import LOG, Job
from streaming.landing.arrival import as_archived
from streaming.set_aside import mark

ARCHIVE = "bronze.events"
LIVE_KAFKA_SECONDS = 15.0
"""After it a live query that gets no answer fails; the runner then waits for Kafka, reports it, and starts it again."""

MAX_OFFSET = 2**63 - 1
ANY_NUMBER = 2**31 - 1
"""The greatest integer, which Delta takes as no limit."""


class Sources:
    """Opens streams in one session, on the served generations or on those that a replay builds."""

    def __init__(
        self, settings: Settings, spark: SparkSession, target: TableGenerations, *, live: bool = False
    ) -> None:
        """Open streams of these generations; a live one fails soon when Kafka does not answer."""
        self._settings, self._spark, self._target = settings, spark, target
        self._kafka_seconds = LIVE_KAFKA_SECONDS if live else None

    def streams(self, job: Job, starting_offsets: str, landed: Mapping[str, int] | None = None) -> dict[str, DataFrame]:
        """Open the inputs of a job, by name; landed: by topic, the last offset that landing had read before a reset."""
        if not job.topics:
            return {name: self.table(name) for name in job.reads}
        log = self._archive(job) if self._target.source == "bronze" else self._log(job, starting_offsets, landed)
        return {LOG: mark(log, self._settings)}

    def _log(self, job: Job, starting_offsets: str, landed: Mapping[str, int] | None) -> DataFrame:
        refuse_untrusted_arrivals(self._settings, job.topics)
        starting = starting_offsets if starting_offsets != "earliest" else self._target.starting
        log = (
            self._spark.readStream.format("kafka")
            .options(**spark_source_options(self._settings, self._kafka_seconds))
            .option("subscribe", ",".join(job.topics))
            .option("startingOffsets", starting)
            .option("maxOffsetsPerTrigger", self._settings.streaming.records_per_batch)
            .option("includeHeaders", True)
            .load()
        )
        if self._target.replay is not None:
            landed = dict.fromkeys(job.topics, MAX_OFFSET)
        if not landed:
            return as_archived(log)
        archive = self._spark.read.format("delta").load(str(table_location(self._settings, ARCHIVE)))
        # The partition of records without an arrival time.
        return as_archived(log, archive.filter("arrival_date is null"), landed)

    def _archive(self, job: Job) -> DataFrame:
        """Read the archive as a stream in place of the log: its commits keep the order in which records were read."""
        records = (
            self._spark.readStream.format("delta")
            .option("startingVersion", 0)
            .option("maxBytesPerTrigger", self._settings.streaming.archive_bytes_per_batch)
            .load(str(table_location(self._settings, ARCHIVE)))
        )
        return records.filter(records.topic.isin(*job.topics))

    def table(self, name: str) -> DataFrame:
        """Read a table as a stream, commit by commit from the first, so that rows arrive in the order they landed.

        By default Delta reads 1,000 files per micro-batch, and splits a larger commit. Its rows are in no order: the
        watermark of the first part could pass rows of the last.
        """
        table = table_named(name)
        rows = (
            self._spark.readStream.format("delta")
            .option("startingVersion", 0)
            .option("maxFilesPerTrigger", ANY_NUMBER)
            .load(str(table_location(self._settings, table.name, self._target.of_table(name))))
        )
        if table.disorder is None:
            return rows
        delay = table.disorder + timedelta(minutes=self._settings.streaming.skew_minutes)
        if self._target.replay is not None:
            # A replay does not put late rows aside, and it reads the log at another rate: only the ledger of the
            # generation that landed the rows has their disorder. Never less than live: what is built becomes the live
            # job, and a watermark never moves back.
            delay = max(delay, self._disorder(table))
        return rows.withWatermark("event_time", f"{int(delay.total_seconds()) + 1} seconds")

    def _disorder(self, table: Table) -> timedelta:
        topic = str(table.topic or table.lateness_of)
        landed = next(each.name for each in landed_tables() if each.topic == topic)
        return disorder(self._settings, topic, self._target.of_table(landed))
