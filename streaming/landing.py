"""Landing: Kafka -> bronze.events and silver.*, with quarantine, late rows, duplicates and the ledger beside them.

In: the archived topics. Out: every record in bronze.events, and each in exactly one of its silver table,
silver.quarantine, silver.late and silver.duplicates. State: none of Spark's; duplicates are looked up in silver.
All of it happens in one micro-batch, parsed once, each table written in one commit; the ledger row comes last and
says that the batch is whole.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, reduce

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from config.declarations import topics
from streaming import ledger
from streaming.duplicates import first_copies, landed_copies, with_stretch
from streaming.job import Batch, Job
from streaming.parsing import REUSED_ID, Contract, contracts, judge, parse
from streaming.tables import ORIGIN, append

SIDE_TABLES = {"silver.quarantine": "quarantined", "silver.late": "late", "silver.duplicates": "duplicates"}


def land(batch: Batch) -> None:
    """Land one micro-batch."""
    promised = contracts()
    records = batch.rows.select(
        "topic", "partition", "offset", "key", "value", "headers", F.col("timestamp").alias("arrival_time")
    ).coalesce(2 * batch.settings.spark.cores)  # as many files in each commit, whatever the number of partitions
    horizon = batch.settings.streaming.dedup_horizon_minutes * 60
    with _kept(with_stretch(parse(records, promised), horizon)) as parsed:
        seen = _look_over(parsed)
        if not seen:
            return
        with _kept(_exceptions(batch, parsed, seen, promised)) as exceptions:
            entry = ledger.count(parsed, exceptions, batch)
            batch = replace(batch, landed=_overlap(batch, entry))
            _write(batch, entry, parsed, exceptions, promised)
            ledger.record(entry, batch)


def _write(
    batch: Batch, entry: ledger.Entry, parsed: DataFrame, exceptions: DataFrame, promised: tuple[Contract, ...]
) -> None:
    """Write every table that the batch has rows for; they are independent, and a commit is mostly waiting."""
    bronze = parsed.withColumn("arrival_date", F.to_date("arrival_time"))
    writes: list[Callable[[], None]] = [partial(append, batch, "bronze.events", bronze, ledger.total(entry, "input"))]
    for contract in promised:
        if count := ledger.total(entry, "silver", contract.topic.name):
            rows = parsed.filter(F.col("topic") == contract.topic.name)
            rows = rows.join(F.broadcast(exceptions.select(*ORIGIN)), list(ORIGIN), "left_anti")
            writes.append(partial(append, batch, contract.table.name, rows.select(*_typed(contract)), count))
    for name, verdict in SIDE_TABLES.items():
        if count := ledger.total(entry, verdict):
            writes.append(partial(append, batch, name, exceptions.filter(F.col("verdict") == verdict), count))
    with ThreadPoolExecutor(batch.settings.streaming.parallel_writes) as pool:
        for done in [pool.submit(write) for write in writes]:
            done.result()


def _overlap(batch: Batch, entry: ledger.Entry) -> dict[str, int]:
    """Keep of what may have landed before a reset only the topics in which this batch still reaches back to it."""
    firsts = {
        topic: min(r["from_offset"] for r in entry if r["topic"] == topic) for topic in {r["topic"] for r in entry}
    }
    return {topic: last for topic, last in batch.landed.items() if firsts.get(topic, last + 1) <= last}


def sort_out(valid: DataFrame, landed: DataFrame) -> DataFrame:
    """Find the valid records that do not go to silver, and say why: reused id, late or duplicate, in this order."""
    first = first_copies(valid, landed)
    marked = valid.join(F.broadcast(first), ["topic", "event_id", "stretch"], "left")
    itself = (F.col("first.partition") == F.col("partition")) & (F.col("first.offset") == F.col("offset"))
    copy = F.col("first").isNotNull() & ~itself
    reused = copy & (F.col("first.content_hash") != F.col("content_hash"))
    verdict = F.when(reused, "quarantined").when(F.col("late_by_ms").isNotNull(), "late").when(copy, "duplicates")
    return (
        marked.withColumn("verdict", verdict)
        .filter("verdict is not null")
        .withColumn("rules", F.when(reused, F.array(F.lit(REUSED_ID))).otherwise(F.array().cast("array<string>")))
        .withColumn("duplicate_of", F.when(copy, F.struct("first.partition", "first.offset")))
        .drop("first")
    )


def _look_over(parsed: DataFrame) -> dict[str, Row]:
    """See, by topic, how many records and how many doubtful ones there are, and the stretches of event time."""
    seen = parsed.groupBy("topic").agg(
        F.count("*").alias("records"),
        F.count_if(~F.col("clean")).alias("doubtful"),
        F.collect_set("stretch").alias("stretches"),
    )
    return {row.topic: row for row in seen.collect()}


def _exceptions(batch: Batch, parsed: DataFrame, seen: dict[str, Row], promised: tuple[Contract, ...]) -> DataFrame:
    """Gather every record that does not go to silver, with its verdict: few of many, so each is worth a look."""
    landed = landed_copies(parsed, promised, seen, batch)
    doubted = [c for c in promised if c.topic.name in seen and seen[c.topic.name].doubtful]
    if not doubted:
        return sort_out(parsed, landed)
    # Judged once and kept: the planner would copy the long expression into everything built on it.
    judged = reduce(
        DataFrame.unionByName,
        (judge(parsed.filter((F.col("topic") == c.topic.name) & ~F.col("clean")), c) for c in doubted),
    ).localCheckpoint()
    broken = judged.filter(F.size("rules") > 0)
    valid = parsed.join(F.broadcast(broken.select(*ORIGIN)), list(ORIGIN), "left_anti")
    quarantined = broken.withColumn("verdict", F.lit("quarantined")).withColumn("duplicate_of", F.lit(None))
    return sort_out(valid, landed).unionByName(quarantined)


@contextmanager
def _kept(frame: DataFrame) -> Iterator[DataFrame]:
    """Compute a frame once for all that is made of it, and forget how it was made.

    A cached frame would carry its whole plan into every plan built on it, and planning would cost more than the work.
    """
    kept = frame.localCheckpoint()
    try:
        yield kept
    finally:
        kept._jdf.queryExecution().logical().rdd().unpersist(False)


def _typed(contract: Contract) -> list[Column]:
    """Take the table's columns out of the parsed event."""
    origin = {
        "arrival_time": F.col("arrival_time"),
        "partition": F.col("partition"),
        "offset": F.col("offset"),
        "content_hash": F.col("content_hash"),
        "event_date": F.to_date("event_time"),
    }
    found = []
    for name, column in contract.table.stored.items():
        path = F.col(f"`{contract.topic.name}`.{column.source}")
        found.append(origin.get(name, path).cast(column.type).alias(name))
    return found


def job() -> Job:
    """Define the job over the topics that are archived."""
    return Job(
        name="landing",
        role="landing",
        version=1,
        topics=tuple(name for name, topic in topics().items() if topic.archived),
        writes=("bronze.events", *(c.table.name for c in contracts()), *SIDE_TABLES),
        process=land,
    )
