"""Landing: Kafka -> bronze.events and silver.*, with quarantine, late rows, duplicates and the ledger beside them.

In: the archived topics. Out: every record in bronze.events, and each in exactly one of its silver table,
silver.quarantine, silver.late and silver.duplicates. State: none of Spark's; duplicates are looked up in silver.
All of it happens in one micro-batch, parsed once, each table written in one commit; the ledger row comes last and
says that the batch is whole.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from config.declarations import topics
from streaming import ledger
from streaming.duplicates import first_copies, landed_copies, with_stretch
from streaming.job import Batch, Job
from streaming.parsing import REUSED_ID, Contract, contracts, judge, parse
from streaming.tables import append
from streaming.users import merge_versions

SIDE_TABLES = {"silver.quarantine": "quarantined", "silver.late": "late", "silver.duplicates": "duplicates"}
ORIGIN = ("topic", "partition", "offset")


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
            _write(batch, entry, parsed, exceptions, promised)
            ledger.record(entry, batch)


def _write(
    batch: Batch, entry: ledger.Entry, parsed: DataFrame, exceptions: DataFrame, promised: tuple[Contract, ...]
) -> None:
    """Write every table that the batch has rows for; they are independent, and a commit is mostly waiting."""
    bronze = parsed.withColumn("arrival_date", F.to_date("arrival_time"))
    writes: list[Callable[[], None]] = [partial(append, batch, "bronze.events", bronze)]
    for contract in promised:
        if ledger.total(entry, "silver", contract.topic.name):
            writes.append(partial(_land_table, batch, contract, parsed, exceptions))
    for name, verdict in SIDE_TABLES.items():
        if ledger.total(entry, verdict):
            writes.append(partial(append, batch, name, exceptions.filter(F.col("verdict") == verdict)))
    with ThreadPoolExecutor(batch.settings.streaming.parallel_writes) as pool:
        for done in [pool.submit(write) for write in writes]:
            done.result()


def sort_out(valid: DataFrame, landed: DataFrame) -> DataFrame:
    """Find the valid records that do not go to silver, and say why: reused id, late or duplicate, in this order."""
    first = first_copies(valid, landed)
    marked = valid.join(F.broadcast(first), ["topic", "event_id", "stretch"], "left")
    itself = (F.col("first.partition") == F.col("partition")) & (F.col("first.offset") == F.col("offset"))
    copy = F.col("first").isNotNull() & ~itself
    reused = copy & (F.col("first.content_hash") != F.col("content_hash"))
    verdict = (
        F.when(reused, "quarantined")
        .when(F.col("late_by_ms").isNotNull(), "late")
        .when(copy, "duplicates")
    )
    return (
        marked.withColumn("verdict", verdict)
        .filter("verdict is not null")
        .withColumn("rules", F.when(reused, F.array(F.lit(REUSED_ID))).otherwise(F.array().cast("array<string>")))
        .withColumn("duplicate_of", F.when(copy, F.struct("first.partition", "first.offset")))
        .drop("first")
    )


def _look_over(parsed: DataFrame) -> dict[str, Row]:
    """See, by topic, how many records are doubtful and which stretches of event time the batch touches."""
    seen = parsed.groupBy("topic").agg(
        F.count_if(~F.col("clean")).alias("doubtful"), F.collect_set("stretch").alias("stretches")
    )
    return {row.topic: row for row in seen.collect()}


def _exceptions(
    batch: Batch, parsed: DataFrame, seen: dict[str, Row], promised: tuple[Contract, ...]
) -> DataFrame:
    """Gather every record that does not go to silver, with its verdict: few of many, so each is worth a look."""
    broken = None
    for contract in promised:
        if contract.topic.name in seen and seen[contract.topic.name].doubtful:
            mine = parsed.filter((F.col("topic") == contract.topic.name) & ~F.col("clean"))
            judged = judge(mine, contract).filter(F.size("rules") > 0)
            broken = judged if broken is None else broken.unionByName(judged)
    spark = batch.rows.sparkSession
    landed = landed_copies(spark, promised, seen, batch)
    if broken is None:
        return sort_out(parsed, landed)
    quarantined = (
        broken.withColumn("verdict", F.lit("quarantined")).withColumn("duplicate_of", F.lit(None)).localCheckpoint()
    )
    valid = parsed.join(F.broadcast(quarantined.select(*ORIGIN)), list(ORIGIN), "left_anti")
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


def _land_table(batch: Batch, contract: Contract, parsed: DataFrame, exceptions: DataFrame) -> None:
    mine = parsed.filter(F.col("topic") == contract.topic.name)
    rows = mine.join(F.broadcast(exceptions.select(*ORIGIN)), list(ORIGIN), "left_anti").select(*_typed(contract))
    if contract.table.versioned_by:
        merge_versions(batch, contract.table, rows)
    else:
        append(batch, contract.table.name, rows)


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
    for name, column in contract.table.columns.items():
        path = F.col(f"`{contract.topic.name}`.{column.source}") if column.source else F.lit(None)
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
