"""Sources: the streams that a job reads, from the log or from tables. The only readStream."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

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
        self,
        settings: Settings,
        spark: SparkSession,
        target: TableGenerations,
        *,
        live: bool = False,
        from_first: bool = False,
    ) -> None:
        """Open streams of these generations; a live one fails soon when Kafka does not answer.

        from_first: a replay that reads tables from their first commit, all of history as a stream.
        """
        self._settings, self._spark, self._target = settings, spark, target
        self._kafka_seconds = LIVE_KAFKA_SECONDS if live else None
        self._from_first = from_first

    def streams(
        self,
        job: Job,
        starting_offsets: str = "earliest",
        landed: Mapping[str, int] | None = None,
        versions: Mapping[str, int] | None = None,
    ) -> dict[str, DataFrame]:
        """Open the inputs of a job, by name.

        landed: by topic, the last offset that landing had read before a reset.
        versions: by table, the version at which a new stream starts; one that continues knows it from its checkpoint.
        """
        if not job.topics:
            return {name: self.table(name, (versions or {}).get(name)) for name in job.reads}
        return {LOG: mark(self._log(job, starting_offsets, landed), self._settings)}

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

    def tails(self, job: Job, since: datetime | None) -> dict[str, DataFrame]:
        """Open the inputs of a job whose history is computed: first their rows from an event time on, then new commits.

        The rows come from the tables as they are, all in the first micro-batch. It has no watermark yet, so none of
        them can be dropped, whatever their order.
        """
        return {
            name: self._watermarked(name, _since(table_named(name), self._opened(name), since)) for name in job.reads
        }

    def table(self, name: str, version: int | None = None) -> DataFrame:
        """Read a table as a stream, commit by commit, so that rows arrive in the order they landed."""
        return self._watermarked(name, self._opened(name, version))

    def _opened(self, name: str, version: int | None = None) -> DataFrame:
        """Open a table: at a version, or where the checkpoint is; a new stream starts with the table as it is.

        By default Delta reads 1,000 files per micro-batch, and splits a larger commit. Its rows are in no order: the
        watermark of the first part could pass rows of the last.
        """
        reader = self._spark.readStream.format("delta").option("maxFilesPerTrigger", ANY_NUMBER)
        if version is not None:
            reader = reader.option("startingVersion", version)
        return reader.load(str(table_location(self._settings, name, self._target.of_table(name))))

    def _watermarked(self, name: str, rows: DataFrame) -> DataFrame:
        table = table_named(name)
        delay = live_delay(table, self._settings)
        if delay is None:
            return rows
        if self._from_first and self._target.replay is not None:
            # A replay does not put late rows aside, and it reads the log at another rate: only the ledger of the
            # generation that landed the rows has their disorder. Never less than live: what is built becomes the live
            # job, and a watermark never moves back.
            delay = max(delay, whole_seconds(self._disorder(table)))
        return rows.withWatermark("event_time", f"{int(delay.total_seconds())} seconds")

    def _disorder(self, table: Table) -> timedelta:
        topic = str(table.topic or table.lateness_of)
        landed = next(each.name for each in landed_tables() if each.topic == topic)
        return disorder(self._settings, topic, self._target.of_table(landed))


def live_delay(table: Table, settings: Settings) -> timedelta | None:
    """Return the watermark delay of a live stream of a table; None for a table whose rows have no order in time."""
    if table.disorder is None:
        return None
    return whole_seconds(table.disorder + timedelta(minutes=settings.streaming.skew_minutes))


def whole_seconds(delay: timedelta) -> timedelta:
    """Round a delay up to the next second."""
    return timedelta(seconds=int(delay.total_seconds()) + 1)


def _since(table: Table, rows: DataFrame, since: datetime | None) -> DataFrame:
    if since is None:
        return rows
    if table.day_of == "event_time":
        (day,) = table.partitioned_by
        rows = rows.filter(F.col(day) >= F.lit(since.date()))  # so that files of earlier days are not read
    return rows.filter(F.col("event_time") >= F.lit(since))
