"""Records: bronze.events -> parsed and validated records, once; then silver, quarantine and duplicates.

Parsing costs most, so parsed records are stored: a run parses only what is new. Duplicates are found again for every
day that got records. The code for that is separate from landing's: landing looks duplicates up in earlier batches,
here all records are present at once.
"""

from datetime import date

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from batch.fence import Offsets
from batch.segments import SEGMENT, WHOLE
from config.failpoints import failpoint
from config.settings import Settings
from lake.location import Location, warehouse
from lake.tables import ORIGIN
from streaming.landing.classify import REUSED_ID
from streaming.landing.contract import Contract
from streaming.landing.job import parse_and_validate
from streaming.landing.parse import landing_columns
from streaming.set_aside import mark

Days = dict[str, set[date]]
"""Days of event time, by topic."""


def folder(settings: Settings) -> Location:
    """Return the location of the parsed records."""
    # The name on disk is older than the names in this file: with another one, each home would parse its archive again.
    return warehouse(settings) / "batch" / "judged"


def stored_code_version(settings: Settings) -> str | None:
    """Return the version of the code that parsed the stored records."""
    if not folder(settings).is_table():
        return None
    found = (commit.get("userMetadata") for commit in folder(settings).table().history())
    return next((version for version in found if version), None)


def parse_new(archive: DataFrame, settings: Settings, code_version: str, *, full: bool) -> None:
    """Parse and validate the records that were not parsed yet, or all if other code parsed them."""
    full = full or stored_code_version(settings) != code_version
    path = str(folder(settings))
    broken = F.size("rules") > 0
    new = archive
    if not full:
        known = archive.sparkSession.read.format("delta").load(path)
        new = _beyond(archive, known.groupBy("topic", "partition").agg((F.max("offset") + 1).alias("end")))
    found = parse_and_validate(mark(new, settings)).select(
        *ORIGIN,
        *("arrival_time", "event_id", "event_time", "event_date", "rules", "content_hash", "dedup_hash", "event"),
        # The event time of an invalid record can be anything; it may not even have an arrival time.
        F.when(broken, F.coalesce(F.to_date("arrival_time"), F.lit(WHOLE)))
        .otherwise(F.to_date("event_time"))
        .alias(SEGMENT),
    )
    writer = found.write.format("delta").partitionBy(SEGMENT).option("userMetadata", code_version)
    writer = writer.mode("overwrite").option("overwriteSchema", True) if full else writer.mode("append")
    writer.save(path)
    failpoint("after batch parsed")


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
    valid = records.filter(F.size("rules") == 0)
    # Nearly every event is unique: find candidates by hash, and compare only those by id.
    repeated = valid.groupBy("dedup_hash").count().filter("count > 1").select("dedup_hash")
    time_bucket = F.floor(F.unix_micros("event_time") / (horizon_minutes * 60_000_000))
    log = Window.partitionBy("topic", "event_id", time_bucket).orderBy("partition", "offset")
    first = F.first(F.struct("partition", "offset", "content_hash")).over(log)
    suspects = valid.join(F.broadcast(repeated), "dedup_hash", "left_semi").withColumn("first", first)
    copies = suspects.filter(F.expr("(first.partition, first.offset) != (partition, offset)"))
    return copies.select(
        *ORIGIN,
        F.struct("first.partition", "first.offset").alias("duplicate_of"),
        (F.col("content_hash") != F.col("first.content_hash")).alias("reused"),
    )


def landed(records: DataFrame, aside: DataFrame, contract: Contract) -> DataFrame:
    """Return the valid events of a topic, each once."""
    valid = records.filter((F.col("topic") == contract.topic.name) & (F.size("rules") == 0))
    once = valid.join(F.broadcast(aside.select(*ORIGIN)), list(ORIGIN), "left_anti")
    return once.select(*landing_columns(contract), SEGMENT)


def duplicates(records: DataFrame, aside: DataFrame) -> DataFrame:
    """Return the duplicates."""
    return records.join(F.broadcast(aside.filter("not reused")), list(ORIGIN))


def quarantined(records: DataFrame, aside: DataFrame) -> DataFrame:
    """Return the records that broke a rule or reuse an id."""
    nothing = F.lit(None).cast("struct<partition:int,offset:bigint>")
    broken = records.filter(F.size("rules") > 0).withColumn("duplicate_of", nothing)
    reused = aside.filter("reused").select(*ORIGIN, "duplicate_of")
    again = records.drop("rules").join(F.broadcast(reused), list(ORIGIN)).withColumn("rules", F.array(F.lit(REUSED_ID)))
    return broken.unionByName(again.select(*broken.columns))
