"""Landing: Kafka -> bronze.events, silver.*, silver.quarantine, silver.late, silver.duplicates and the ledger.

In: the archived topics. Out: every record in bronze.events, and in exactly one of its silver table, silver.quarantine,
silver.late and silver.duplicates. State: no Spark state; duplicates are looked up in silver.
Spark parses and validates each record by itself, in the streaming query. Decisions that need several records (is it a
duplicate?) are made in Arrow, on the few columns they need. Each table gets one commit; the ledger entry is written
last and marks the batch as complete.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from config.declarations import topics
from lake import ledger
from lake.batch import Batch
from lake.tables import try_collect
from streaming.job import LOG, Job, Query
from streaming.landing.arrival import RECORD
from streaming.landing.classify import INPUT_COLUMNS, classify
from streaming.landing.contract import contracts
from streaming.landing.parse import parse
from streaming.landing.write import ARCHIVE, SIDE_TABLES, Rows, split_by_table, write_tables
from streaming.set_aside import MARK, RULE

SMALL_BATCH = 20_000
"""Up to this many records, one task per Kafka partition costs more than it saves."""


def parse_and_validate(log: DataFrame) -> DataFrame:
    """Parse records with the archive's columns, list the rules they break; one that is set aside breaks only that."""
    records = log.select(*(name for name in (*RECORD, MARK) if name in log.columns))
    parsed = _parsed_without(records, records[MARK]) if MARK in log.columns else parse(records)
    size = F.coalesce(F.octet_length("key"), F.lit(0)) + F.coalesce(F.octet_length("value"), F.lit(0))
    return parsed.select(
        "*",
        F.to_date("arrival_time").alias("arrival_date"),
        F.xxhash64("topic", "event_id").alias("dedup_hash"),
        size.cast("bigint").alias("size"),
    )


def _parsed_without(records: DataFrame, marked: Column) -> DataFrame:
    """Parse records, but not the values of marked ones: the parser gets no value, the archive gets it as received."""
    hidden = records.withColumns({MARK: marked, "received": F.col("value"), "value": F.when(~marked, F.col("value"))})
    rules = F.when(F.col(MARK), F.array(F.lit(RULE))).otherwise(F.col("rules"))
    return parse(hidden).withColumns({"value": F.col("received"), "rules": rules}).drop(MARK, "received")


def land(batch: Batch) -> None:
    """Land one micro-batch."""
    with _materialized(batch) as rows:
        entry, parts = _classified(rows, batch)
        if not entry:
            return
        batch = replace(batch, already_landed=_still_overlapping(batch, entry))
        write_tables(batch, {name: part for name, part in parts.items() if name != ARCHIVE or not batch.is_replay})
        ledger.record_entry(entry, batch)


def classify_records(batch: Batch) -> None:
    """Do everything that landing does before it writes, to find out whether it can."""
    with _materialized(batch) as rows:
        _classified(rows, batch)


def _classified(rows: Rows, batch: Batch) -> tuple[ledger.Entry, dict[str, Rows]]:
    """Classify the records of a batch: its ledger entry, and the rows of each table."""
    columns = rows.select(list(INPUT_COLUMNS)) if isinstance(rows, pa.Table) else rows.select(*INPUT_COLUMNS).toArrow()
    if not len(columns):
        return [], {}
    classified = classify(columns, batch)
    return ledger.count(classified, batch), split_by_table(rows, classified)


@contextmanager
def _materialized(batch: Batch) -> Iterator[Rows]:
    """Compute the batch once for all its writes: a small one in this process, a large one in Spark.

    localCheckpoint, not cache: a cached DataFrame carries its whole plan into every plan built on it, and planning
    would cost more than the work.
    """
    streaming, cores = batch.settings.streaming, batch.settings.spark.cores
    rows = batch.rows.coalesce(cores) if 0 < batch.records <= SMALL_BATCH else batch.rows
    if batch.records <= streaming.records_on_driver and (collected := try_collect(rows)) is not None:
        yield collected
        return
    checkpointed = rows.localCheckpoint()
    try:
        # A fixed number of files per commit, so that a downstream micro-batch reads whole commits. Coalesce only
        # after parsing: coalesce merges neighbouring partitions, and one core would parse all of a large topic.
        yield checkpointed.coalesce(2 * cores)
    finally:
        checkpointed._jdf.queryExecution().logical().rdd().unpersist(False)


def _still_overlapping(batch: Batch, entry: ledger.Entry) -> dict[str, int]:
    """Keep, of the offsets landed before a reset, only the topics where this batch still starts at or before them."""
    firsts = {
        topic: min(r["from_offset"] for r in entry if r["topic"] == topic) for topic in {r["topic"] for r in entry}
    }
    return {topic: last for topic, last in batch.already_landed.items() if firsts.get(topic, last + 1) <= last}


def job() -> Job:
    """Define the job; it reads all archived topics."""
    return Job(
        name="landing",
        role="landing",
        version=1,
        topics=tuple(name for name, topic in topics().items() if topic.archived),
        writes=(ARCHIVE, *(c.table.name for c in contracts()), *SIDE_TABLES),
        query=Query(transform=lambda tables: parse_and_validate(tables[LOG])),
        process=land,
    )
