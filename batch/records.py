"""Records: bronze.events -> every record parsed and judged, once; then sorted into silver, quarantine and duplicates.

Parsing is what costs most, so what was found of a record is kept: a run parses only what came since the last. Which
of several copies is the first is worked out anew for every day that got records. That is written again, in Spark:
landing looks copies up in what it landed before, batch by batch; here they are all there at once.
"""

import hashlib
from datetime import date
from pathlib import Path

import deltalake
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from batch.fence import Offsets
from batch.segments import SEGMENT
from config.failpoints import failpoint
from config.settings import ROOT, Settings
from lake.tables import ORIGIN
from streaming.landing.classify import REUSED_ID
from streaming.landing.job import parse_and_validate
from streaming.landing.parse import Contract, landing_columns

Days = dict[str, set[date]]
"""By topic, days of event time."""

LOGIC = (
    "streaming/**/*.py",
    "batch/**/*.py",
    "expectations/rules/*.yaml",
    "config/topics/*.yaml",
    "config/tables/*.yaml",
)


def folder(settings: Settings) -> Path:
    """Say where the judged records are kept."""
    return settings.warehouse / "batch" / "judged"


def logic() -> str:
    """Tell one state of rules and code from another: what other logic found is no base to build on."""
    digest = hashlib.sha256()
    for file in sorted(path for pattern in LOGIC for path in ROOT.glob(pattern)):
        digest.update(file.relative_to(ROOT).as_posix().encode() + file.read_bytes())
    return digest.hexdigest()


def known_logic(settings: Settings) -> str | None:
    """Give the logic that the kept records were judged by."""
    path = str(folder(settings))
    if not deltalake.DeltaTable.is_deltatable(path):
        return None
    found = (commit.get("userMetadata") for commit in deltalake.DeltaTable(path).history())
    return next((logic for logic in found if logic), None)


def judge(archive: DataFrame, settings: Settings, *, full: bool) -> None:
    """Parse and judge the records that were not yet, or all."""
    path = str(folder(settings))
    broken = F.size("rules") > 0
    new = archive
    if not full:
        known = archive.sparkSession.read.format("delta").load(path)
        new = _beyond(archive, known.groupBy("topic", "partition").agg((F.max("offset") + 1).alias("end")))
    found = parse_and_validate(new.withColumnRenamed("arrival_time", "timestamp")).select(
        *ORIGIN,
        *("arrival_time", "event_id", "event_time", "event_date", "rules", "content_hash", "dedup_hash", "event"),
        F.when(broken, F.col("key")).alias("key"),
        F.when(broken, F.col("value")).alias("value"),
        # The event time of a broken record may be anything.
        F.when(broken, F.to_date("arrival_time")).otherwise(F.to_date("event_time")).alias(SEGMENT),
    )
    writer = found.write.format("delta").partitionBy(SEGMENT).option("userMetadata", logic())
    writer = writer.mode("overwrite").option("overwriteSchema", True) if full else writer.mode("append")
    writer.save(path)
    failpoint("after batch judged")


def days_beyond(records: DataFrame, offsets: Offsets) -> Days:
    """List the days that got records beyond some offsets: whoever judged them, be it a run that was never published."""
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
    """Find the records that are not the first copy of their event, and whether they reuse its id for another."""
    valid = records.filter(F.size("rules") == 0)
    # Nearly every event is alone: find those that are not by a number, and look only at these by their names.
    repeated = valid.groupBy("dedup_hash").count().filter("count > 1").select("dedup_hash")
    stretch = F.floor(F.unix_micros("event_time") / (horizon_minutes * 60_000_000))
    log = Window.partitionBy("topic", "event_id", stretch).orderBy("partition", "offset")
    first = F.first(F.struct("partition", "offset", "content_hash")).over(log)
    suspects = valid.join(F.broadcast(repeated), "dedup_hash", "left_semi").withColumn("first", first)
    copies = suspects.filter(F.expr("(first.partition, first.offset) != (partition, offset)"))
    return copies.select(
        *ORIGIN,
        F.struct("first.partition", "first.offset").alias("duplicate_of"),
        (F.col("content_hash") != F.col("first.content_hash")).alias("reused"),
    )


def landed(records: DataFrame, aside: DataFrame, contract: Contract) -> DataFrame:
    """Give the events of a topic: valid, each once."""
    valid = records.filter((F.col("topic") == contract.topic.name) & (F.size("rules") == 0))
    once = valid.join(F.broadcast(aside.select(*ORIGIN)), list(ORIGIN), "left_anti")
    return once.select(*landing_columns(contract), SEGMENT)


def duplicates(records: DataFrame, aside: DataFrame) -> DataFrame:
    """Give the further copies of events."""
    return records.join(F.broadcast(aside.filter("not reused")), list(ORIGIN))


def quarantined(records: DataFrame, aside: DataFrame, archive: DataFrame) -> DataFrame:
    """Give the records that broke a rule; one that reuses an id is read from the archive, as it looked valid."""
    nothing = F.lit(None).cast("struct<partition:int,offset:bigint>")
    broken = records.filter(F.size("rules") > 0).withColumn("duplicate_of", nothing)
    reused = aside.filter("reused").select(*ORIGIN, "duplicate_of")
    again = (
        records.drop("key", "value", "rules")
        .join(F.broadcast(reused), list(ORIGIN))
        .join(archive.select(*ORIGIN, "key", "value"), list(ORIGIN))
        .withColumn("rules", F.array(F.lit(REUSED_ID)))
    )
    return broken.unionByName(again.select(*broken.columns))
