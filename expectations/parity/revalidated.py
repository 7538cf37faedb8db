"""Revalidation: records that one side has in quarantine, as received -> the rules that they break.

A row in quarantine proves nothing by itself: it could be that of any record. So the record is read again, from the
archive or, if it is not archived, from Kafka, and validated by the rules as they are and as they were.
"""

from functools import reduce

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from config.settings import Settings
from expectations.parity.earlier_rules import earlier_contracts
from expectations.parity.outcomes import RECORD
from lake.tables import read
from streaming.landing.archive import TABLE as ARCHIVE
from streaming.landing.archive import between
from streaming.landing.arrival import RECORD as RECEIVED
from streaming.landing.arrival import as_archived
from streaming.landing.breaches import broken_rules
from streaming.landing.contract import CORRUPT, Contract, contracts
from streaming.landing.job import parse_and_validate
from streaming.landing.parse import JSON_OPTIONS
from streaming.set_aside import MARK, mark, recorded

VERSIONS = "versions"
"""The rules that a record breaks: by the current declarations, then by each earlier version of them."""

WAS_SET_ASIDE = "was_set_aside"


def received(records: DataFrame, topic: str, settings: Settings, refused: DataFrame) -> DataFrame:
    """Read some records of a topic, few of them, as they were received.

    refused: records whose timestamp was not believed when they were landed; it is not believed now.
    """
    ends = records.agg(F.min("offset"), F.max("offset")).collect()[0]  # Delta then skips the files of other offsets
    of_topic = read(records.sparkSession, ARCHIVE, settings).filter(F.col("topic") == topic)
    archive = of_topic.filter(F.col("offset").between(*ends)).select(*RECEIVED)
    archived = archive.join(F.broadcast(records.select(*RECORD)), list(RECORD), "left_semi").localCheckpoint()
    missing = records.join(archived, list(RECORD), "left_anti").groupBy("partition")
    found = missing.agg(F.min("offset"), F.max("offset")).collect()
    ranges = {(topic, partition): (low, high + 1) for partition, low, high in found}
    if not ranges:
        return archived
    log = as_archived(between(records.sparkSession, settings, ranges), refused)
    return archived.unionByName(log.join(F.broadcast(records.select(*RECORD)), list(RECORD), "left_semi"))


def revalidated(records: DataFrame, settings: Settings) -> DataFrame:
    """Validate records by the current rules, and tell which of them someone has set aside since they were received."""
    marked = mark(records, settings)
    conditions = [each.condition for each in recorded(settings)]
    set_aside = F.expr(" or ".join(conditions)) if conditions else F.lit(False)
    rules = F.array("rules").alias(VERSIONS)
    return (
        parse_and_validate(marked)
        .select(*RECORD, "event_time", "content_hash", rules, set_aside.alias(WAS_SET_ASIDE))
        .localCheckpoint()
    )


def with_earlier_rules(again: DataFrame, records: DataFrame, topic: str, settings: Settings) -> DataFrame:
    """Add what revalidated records broke by each earlier version of their rules."""
    (contract,) = (each for each in contracts() if each.topic.name == topic)
    readable = mark(records, settings)
    if MARK in readable.columns:
        readable = readable.filter(f"not {MARK}")  # the parser would fail
    versions = []
    for earlier in earlier_contracts(contract):
        try:
            versions.append(_broken(readable, earlier))
        except AnalysisException:
            continue  # a rule of a field that the schema did not have yet
    if not versions:
        return again
    more = reduce(DataFrame.unionByName, versions).groupBy(*RECORD).agg(F.collect_list("rules").alias("more"))
    both = F.concat(VERSIONS, F.coalesce("more", F.array().cast("array<array<string>>")))
    return again.join(more, list(RECORD), "left").withColumn(VERSIONS, both).drop("more").localCheckpoint()


def _broken(records: DataFrame, contract: Contract) -> DataFrame:
    """List the rules of a contract, which need not be the current one, that records of its topic break."""
    text = F.col("value").cast("string")
    event = F.from_json(text, f"{contract.topic.payload_ddl}, {CORRUPT} string", JSON_OPTIONS)
    parsed = records.select("*", text.alias("text"), event.alias(contract.topic.name))
    parsed = parsed.withColumn("variant", F.expr("try_parse_json(text)"))
    return parsed.select(*RECORD, broken_rules(contract).alias("rules"))
