"""Records: bronze.events -> parsed and validated records, once; then silver, quarantine and duplicates.

Parsing costs most, so parsed records are stored: a run parses only what is new. Each topic has a table of its own with
the typed columns of its silver table: a topic is parsed by the plan of its own contract, and nothing reads columns or
rows of other topics (docs/decisions/0035). Duplicates are found again for every day that got records. The code for that
is separate from landing's: landing looks duplicates up in earlier batches, here all records are present at once.
"""

from collections.abc import Iterable
from datetime import date
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from batch.fence import Offsets
from batch.segments import SEGMENT, WHOLE
from config.failpoints import failpoint
from config.parallel import in_parallel
from config.settings import Settings
from lake.location import Location, warehouse
from lake.tables import ORIGIN
from streaming.landing.classify import REUSED_ID
from streaming.landing.contract import Contract, contracts
from streaming.landing.job import parse_and_validate
from streaming.landing.parse import column_paths, landing_columns
from streaming.set_aside import mark

Days = dict[str, set[date]]
"""Days of event time, by topic."""

VALID = "valid"
"""Whether a record broke no rule: with the segment, the partition of parsed records."""

OF_EVERY_TOPIC = (
    *("partition", "offset", "arrival_time", "event_id", "event_time", "event_date", "rules"),
    *("content_hash", "dedup_hash", VALID, SEGMENT),
)
"""Columns of the parsed records of every topic."""


def folder(settings: Settings) -> Location:
    """Return the location of the parsed records: one table for each topic."""
    return warehouse(settings) / "batch" / "parsed"


def stored_code_version(table: Location) -> str | None:
    """Return the version of the code that parsed the stored records of a topic."""
    if not table.is_table():
        return None
    found = (commit.get("userMetadata") for commit in table.table().history())
    return next((version for version in found if version), None)


def parse_new(archive: DataFrame, settings: Settings, code_version: str, *, full: bool) -> None:
    """Parse and validate the records that were not parsed yet, or all if other code parsed them."""

    def of_topic(contract: Contract) -> None:
        _parse_topic(archive, contract, settings, code_version, full=full)

    in_parallel(of_topic, contracts(), settings.streaming.parallel_writes)
    # Older releases kept the records of all topics in one table.
    (warehouse(settings) / "batch" / "judged").remove()


def _parse_topic(archive: DataFrame, contract: Contract, settings: Settings, code_version: str, *, full: bool) -> None:
    location, topic = folder(settings) / contract.topic.name, contract.topic.name
    full = full or stored_code_version(location) != code_version
    # A literal: Spark then drops what the parser does for the other topics.
    new = archive.filter(F.col("topic") == topic).withColumn("topic", F.lit(topic))
    if not full:
        known = archive.sparkSession.read.format("delta").load(str(location))
        ends = known.groupBy("partition").agg((F.max("offset") + 1).alias("end"))
        new = _beyond(new, ends.withColumn("topic", F.lit(topic)))
    broken = F.size("rules") > 0
    # The event time of an invalid record can be anything; it may not even have an arrival time.
    day = F.when(broken, F.coalesce(F.to_date("arrival_time"), F.lit(WHOLE))).otherwise(F.to_date("event_time"))
    found = parse_and_validate(mark(new, settings)).withColumns({SEGMENT: day, VALID: ~broken})
    own = [column.alias(name) for name, column in stored_columns(contract).values() if name not in OF_EVERY_TOPIC]
    writer = found.select(*OF_EVERY_TOPIC, *own).write.format("delta").option("userMetadata", code_version)
    writer = writer.mode("overwrite").option("overwriteSchema", True) if full else writer.mode("append")
    writer.partitionBy(SEGMENT, VALID).save(str(location))
    failpoint("after batch parsed")


def parsed(spark: SparkSession, settings: Settings, topic: str) -> DataFrame:
    """Read the parsed records of a topic."""
    return spark.read.format("delta").load(str(folder(settings) / topic)).withColumn("topic", F.lit(topic))


def together(records: Iterable[DataFrame]) -> DataFrame:
    """Put the records of several topics together, with the columns that all of them have."""
    return reduce(DataFrame.unionAll, (each.select("topic", *OF_EVERY_TOPIC) for each in records))


def stored_columns(contract: Contract) -> dict[str, tuple[str, Column]]:
    """Return, for each column of a topic's table, its name among the parsed records, and what it is in a parsed row."""
    paths, named = column_paths(contract), dict(zip(contract.table.stored, landing_columns(contract), strict=True))
    # An event may have a field of its own with the name of a column that all topics have.
    taken = {name for name in ("topic", *OF_EVERY_TOPIC) if paths.get(name, ()) != (name,)}
    return {name: (f"event_{name}" if name in taken else name, column) for name, column in named.items()}


def days_beyond(records: DataFrame, offsets: Offsets) -> Days:
    """Return the days with records beyond some offsets, also if an unpublished run parsed them."""
    ends = [(topic, partition, end) for (topic, partition), end in offsets.items()]
    fence = records.sparkSession.createDataFrame(ends, "topic string, partition int, end bigint")
    found: Days = {}
    for topic, segment in _beyond(records, fence).select("topic", SEGMENT).distinct().collect():
        found.setdefault(topic, set()).add(segment)
    return found


def _beyond(records: DataFrame, ends: DataFrame) -> DataFrame:
    beyond = records.join(F.broadcast(ends), ["topic", "partition"], "left")
    return beyond.filter(F.col("offset") >= F.coalesce("end", F.lit(0))).drop("end")


def exceptions(records: DataFrame, horizon_minutes: int) -> DataFrame:
    """Find the records that are not the first copy of their event, and whether they reuse its id for other content."""
    valid = records.filter(VALID)
    # Nearly every event is unique: find candidates by hash, and compare only those by id.
    repeated = valid.groupBy("dedup_hash").count().filter("count > 1").select("dedup_hash")
    time_bucket = F.floor(F.unix_micros("event_time") / (horizon_minutes * 60_000_000))
    log = Window.partitionBy("topic", "event_id", time_bucket).orderBy("partition", "offset")
    first = F.first(F.struct("partition", "offset", "content_hash")).over(log)
    suspects = valid.join(F.broadcast(repeated), "dedup_hash", "left_semi").withColumn("first", first)
    copies = suspects.filter(F.expr("(first.partition, first.offset) != (partition, offset)"))
    return copies.select(
        *(*ORIGIN, "arrival_time", "event_id", "event_time", SEGMENT),
        F.struct("first.partition", "first.offset").alias("duplicate_of"),
        (F.col("content_hash") != F.col("first.content_hash")).alias("reused"),
    )


def landed(records: DataFrame, aside: DataFrame, contract: Contract) -> DataFrame:
    """Return the valid events of a topic, each once."""
    copies = aside.filter(F.col("topic") == contract.topic.name).select("partition", "offset")
    once = records.filter(VALID).join(F.broadcast(copies), ["partition", "offset"], "left_anti")
    columns = [F.col(stored).alias(name) for name, (stored, _) in stored_columns(contract).items()]
    return once.select(*columns, SEGMENT)


def duplicates(aside: DataFrame) -> DataFrame:
    """Return the duplicates."""
    return aside.filter("not reused")


def quarantined(records: DataFrame, aside: DataFrame) -> DataFrame:
    """Return the records that broke a rule or reuse an id."""
    nothing = F.lit(None).cast("struct<partition:int,offset:bigint>")
    broken = records.filter(~F.col(VALID)).withColumn("duplicate_of", nothing)
    reused = aside.filter("reused").withColumn("rules", F.array(F.lit(REUSED_ID)))
    shared = (*ORIGIN, "arrival_time", "event_id", "rules", "duplicate_of", SEGMENT)
    return broken.select(*shared).unionByName(reused.select(*shared))
