"""Landing: Kafka -> bronze.events and silver.*, with quarantine, late rows, duplicates and the ledger beside them.

In: the archived topics. Out: every record in bronze.events, and each in exactly one of its silver table,
silver.quarantine, silver.late and silver.duplicates. State: none of Spark's; duplicates are looked up in silver.
What can be told of a record alone is worked out by Spark, as part of the stream; what takes several records to tell,
in Arrow, of the few columns it needs. Each table is written in one commit; the ledger row comes last and says that
the batch is whole.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from config.declarations import table_named, topics
from lake import ledger
from lake.batch import Batch
from lake.tables import ORIGIN, append, try_collect
from streaming.job import LOG, Job, Query
from streaming.landing.classify import INPUT_COLUMNS, SILVER, classify
from streaming.landing.parse import Contract, contracts, landing_columns, parse, places

ARCHIVE = "bronze.events"
SIDE_TABLES = {"silver.quarantine": "quarantined", "silver.late": "late", "silver.duplicates": "duplicates"}
SMALL_BATCH = 20_000
"""Up to so many records, a task for each partition of the log costs more than it shares."""

Rows: TypeAlias = pa.Table | DataFrame


def parse_and_validate(log: DataFrame) -> DataFrame:
    """Parse every record of the log, and list the rules it breaks."""
    records = log.select(
        "topic", "partition", "offset", "key", "value", "headers", F.col("timestamp").alias("arrival_time")
    )
    size = F.coalesce(F.octet_length("key"), F.lit(0)) + F.coalesce(F.octet_length("value"), F.lit(0))
    return parse(records).select(
        "*",
        F.to_date("arrival_time").alias("arrival_date"),
        F.xxhash64("topic", "event_id").alias("dedup_hash"),
        size.cast("bigint").alias("size"),
    )


def land(batch: Batch) -> None:
    """Land one micro-batch."""
    with _materialized(batch) as rows:
        needed = (
            rows.select(list(INPUT_COLUMNS)) if isinstance(rows, pa.Table) else rows.select(*INPUT_COLUMNS).toArrow()
        )
        if not len(needed):
            return
        verdicts = classify(needed, batch)
        entry = ledger.count(verdicts, batch)
        batch = replace(batch, already_landed=_overlap(batch, entry))
        parts = _of_arrow(rows, verdicts) if isinstance(rows, pa.Table) else _of_spark(rows, verdicts)
        _write(batch, {name: rows for name, rows in parts.items() if name != ARCHIVE or not batch.is_replay})
        ledger.record_entry(entry, batch)


@contextmanager
def _materialized(batch: Batch) -> Iterator[Rows]:
    """Compute the batch once for all that is made of it: a small one in this process, a large one where Spark has it.

    A cached frame would carry its whole plan into every plan built on it, and planning would cost more than the work.
    """
    configured, cores = batch.settings.streaming, batch.settings.spark.cores
    rows = batch.rows.coalesce(cores) if 0 < batch.records <= SMALL_BATCH else batch.rows
    if batch.records <= configured.records_on_driver and (here := try_collect(rows)) is not None:
        yield here
        return
    kept = rows.localCheckpoint()
    try:
        # As many files in each commit whatever the number of partitions, so that who follows it reads it whole. Not
        # before this: neighbours would be put together, and all of a large topic is parsed by one core.
        yield kept.coalesce(2 * cores)
    finally:
        kept._jdf.queryExecution().logical().rdd().unpersist(False)


def _write(batch: Batch, parts: Mapping[str, Rows]) -> None:
    """Write every table that the batch has rows for; they are independent, and a commit is mostly waiting."""
    writes: list[Callable[[], None]] = []
    for name, rows in parts.items():
        if table_named(name).versioned_by:
            append(batch, name, rows)  # before the others: who follows them looks up what was true at the time
        else:
            writes.append(partial(append, batch, name, rows))
    with ThreadPoolExecutor(batch.settings.streaming.parallel_writes) as pool:
        for done in [pool.submit(write) for write in writes]:
            done.result()


def _of_arrow(rows: pa.Table, verdicts: pa.Table) -> dict[str, Rows]:
    """Split a batch that is here by where its rows go."""
    parts: dict[str, Rows] = {ARCHIVE: rows}
    lands = pc.equal(verdicts["verdict"], SILVER)
    for contract in contracts():
        here = pc.and_(lands, pc.equal(rows["topic"], contract.topic.name))
        if pc.any(here).as_py():
            parts[contract.table.name] = typed(rows, contract).filter(here)
    others = pc.invert(lands)
    aside, why = rows.drop_columns(["rules"]).filter(others), verdicts.filter(others)
    for column in ("verdict", "rules", "duplicate_of"):
        aside = aside.append_column(column, why[column])
    return parts | _aside(aside)


def typed(rows: pa.Table, contract: Contract) -> pa.Table:
    """Take the columns of a topic's table out of judged rows that are here."""
    return pa.table(
        {
            name: pc.struct_field(rows[place[0]], list(place[1:])) if len(place) > 1 else rows[name]
            for name, place in places(contract).items()
        }
    )


def _of_spark(rows: DataFrame, verdicts: pa.Table) -> dict[str, Rows]:
    """Split a batch that Spark has by where its rows go; those that do not land are few, and come here."""
    parts: dict[str, Rows] = {ARCHIVE: rows}
    lands = pc.equal(verdicts["verdict"], SILVER)
    landing = set(verdicts.filter(lands)["topic"].unique().to_pylist())
    exceptions = verdicts.filter(pc.invert(lands)).select([*ORIGIN, "verdict", "rules", "duplicate_of"])
    # In one chunk: of a table in several, pyspark 4.1 loses the rows after the first chunk of each slice.
    few = F.broadcast(rows.sparkSession.createDataFrame(exceptions.combine_chunks())) if len(exceptions) else None
    for contract in contracts():
        if contract.topic.name in landing:
            here = rows.filter(F.col("topic") == contract.topic.name)
            here = here.join(few.select(*ORIGIN), list(ORIGIN), "left_anti") if few else here
            parts[contract.table.name] = here.select(*landing_columns(contract))
    return parts | _aside(rows.drop("rules").join(few, list(ORIGIN)).toArrow()) if few else parts


def _aside(rows: pa.Table) -> dict[str, Rows]:
    found = {name: rows.filter(pc.equal(rows["verdict"], verdict)) for name, verdict in SIDE_TABLES.items()}
    return {name: aside for name, aside in found.items() if len(aside)}


def _overlap(batch: Batch, entry: ledger.Entry) -> dict[str, int]:
    """Keep of what may have landed before a reset only the topics in which this batch still reaches back to it."""
    firsts = {
        topic: min(r["from_offset"] for r in entry if r["topic"] == topic) for topic in {r["topic"] for r in entry}
    }
    return {topic: last for topic, last in batch.already_landed.items() if firsts.get(topic, last + 1) <= last}


def job() -> Job:
    """Define the job over the topics that are archived."""
    return Job(
        name="landing",
        role="landing",
        version=1,
        topics=tuple(name for name, topic in topics().items() if topic.archived),
        writes=(ARCHIVE, *(c.table.name for c in contracts()), *SIDE_TABLES),
        query=Query(transform=lambda tables: parse_and_validate(tables[LOG])),
        process=land,
    )
