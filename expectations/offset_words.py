"""Where every Kafka offset is: in the log, in bronze, in a table after it; in words of 64 offsets of a partition.

Per word and term there is a row count and a bit for each offset. The bits show which offset is missing or is in two
tables, and the count shows that one is there twice. So a table is reduced where it is read, to a row for every 64
offsets, instead of shuffling each record, and nothing is estimated.
"""

import json
from collections.abc import Iterable, Mapping
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from config.kafka import Offsets, spark_source_options
from expectations.ledger_snapshot import LedgerSnapshot
from lake.ledger import TERMS, Entry
from lake.tables import ORIGIN
from streaming.landing.archive import by_topic

BITS = 64
FOLLOWED = ("log", "bronze", *TERMS)
PARTITION = ("topic", "partition")
_NO_END = 2**62


def occurrences(spark: SparkSession, snapshot: LedgerSnapshot, since: Offsets) -> list[DataFrame]:
    """List the occurrences of every record, at least of those from an offset on: a frame per table, and the log."""
    found = [_log(spark, snapshot, since)]
    first = _first_per_topic(snapshot, since)
    from_first = reduce(
        lambda others, topic: others | ((F.col("topic") == topic) & (F.col("offset") >= first[topic])),
        first,
        ~F.col("topic").isin(*first),
    )
    for name, term in snapshot.of_all_topics():
        rows = snapshot.read(spark, name).filter(from_first)
        found.append(rows.select(*ORIGIN, F.lit(term).alias("found_in")))
    for table in snapshot.of_one_topic():
        rows = snapshot.read(spark, table.name).filter(F.col("offset") >= first.get(str(table.topic), 0))
        origin = (F.lit(table.topic).alias("topic"), "partition", "offset")
        found.append(rows.select(*origin, F.lit("silver").alias("found_in")))
    return found


def words(snapshot: LedgerSnapshot, found: Iterable[DataFrame], since: Offsets) -> DataFrame:
    """Reduce occurrences to words; `_rows` counts a term's rows, `landed` are the bits that landing has accounted for.

    since: per partition, the first offset to follow, a multiple of 64.
    """
    word, bit = F.expr("shiftright(offset, 6)"), F.expr("shiftleft(1L, cast(offset & 63 as int))")
    offsets = reduce(DataFrame.unionByName, found).select(*PARTITION, word.alias("word"), bit.alias("bit"), "found_in")
    # First by table, which leaves little to shuffle: each has a row count and bits of its own.
    per_term = offsets.groupBy(*PARTITION, "word", "found_in").agg(
        F.count("*").alias("rows"), F.bit_or("bit").alias("bits")
    )
    measures = []
    for term in FOLLOWED:
        here = F.col("found_in") == term
        measures.append(F.coalesce(F.sum(F.when(here, F.col("rows"))), F.lit(0)).alias(f"{term}_rows"))
        measures.append(F.coalesce(F.bit_or(F.when(here, F.col("bits"))), F.lit(0).cast("bigint")).alias(term))
    bounds = [
        (
            *partition,
            since.get(partition, 0) // BITS,
            snapshot.ends.get(partition, 0),
            snapshot.log_starts.get(partition, 0),
        )
        for partition in sorted(snapshot.ends.keys() | snapshot.log_starts.keys())
    ]
    schema = "topic string, partition int, first bigint, end bigint, start bigint"
    partitions = per_term.sparkSession.createDataFrame(bounds, schema)
    return (
        per_term.groupBy(*PARTITION, "word")
        .agg(*measures)
        .join(F.broadcast(partitions), list(PARTITION), "left")
        .filter("word >= coalesce(first, 0)")
        .withColumn("landed", _mask("0", "coalesce(end, 0)"))
        .withColumn("in_log", _mask("coalesce(start, 0)", str(_NO_END)))
    )


def is_wrong() -> Column:
    """Test a word: each offset in the log once, in bronze once and in one table after it.

    Records that retention deleted from Kafka are checked against the archive alone.
    """
    anywhere = f"({' | '.join(FOLLOWED)}) & landed"
    after_bronze = f"({' | '.join(TERMS)}) & landed"
    rows_of_outcomes = " + ".join(f"bit_count({term} & landed)" for term in TERMS)
    doubled = " or ".join(f"{term}_rows != bit_count({term})" for term in FOLLOWED)
    return F.expr(
        f"({anywhere}) != (bronze & landed) or ({anywhere}) != ({after_bronze})"
        f" or ({anywhere}) & ~log & in_log != 0 or bit_count({anywhere}) != {rows_of_outcomes} or {doubled}"
    )


def per_partition(found: DataFrame, settled: Offsets) -> dict[tuple[str, int], dict[str, int]]:
    """Add up words by partition: landed records (`<term>`), all rows (`<term>_rows`), and wrong words (`wrong`).

    settled: per partition, the offset before which rows are also counted alone (`<term>_settled`).
    """
    ends = [(*partition, end // BITS) for partition, end in settled.items()]
    bounds = found.sparkSession.createDataFrame(ends, "topic string, partition int, settled bigint")
    measures = [F.count_if(is_wrong()).alias("wrong")]
    for term in FOLLOWED:
        measures.append(F.expr(f"sum(bit_count({term} & landed))").alias(term))
        measures.append(F.sum(f"{term}_rows").alias(f"{term}_rows"))
        measures.append(F.expr(f"sum(case when word < settled then {term}_rows else 0 end)").alias(f"{term}_settled"))
    sums = found.join(F.broadcast(bounds), list(PARTITION), "left").groupBy(*PARTITION).agg(*measures)
    return {(row["topic"], row["partition"]): row for row in sums.toArrow().to_pylist()}


def per_entry(found: DataFrame, entries: Entry) -> list[dict[str, int]]:
    """Count the records of each ledger entry in bronze and in the tables after it."""
    terms = ("bronze", *TERMS)
    if not entries:
        return []
    counts = (
        pairs(found, entries).groupBy("entry").agg(*(F.expr(f"sum(bit_count({t} & inside))").alias(t) for t in terms))
    )
    none = dict.fromkeys(terms, 0)
    by_entry = {row["entry"]: row for row in counts.toArrow().to_pylist()}
    return [by_entry.get(number, none) for number in range(len(entries))]


def pairs(found: DataFrame, entries: Entry) -> DataFrame:
    """Join each word with the entries that may have its offsets; `inside` are the bits of those that an entry has.

    Both are joined by buckets as wide as an entry is on average, so that there are at most three times as many pairs
    as words, and two for each entry, however the log was cut into micro-batches.
    """
    spans = sum(row["to_offset"] - row["from_offset"] for row in entries)
    width = max(spans // BITS // len(entries), 1)
    columns = {name: [row[name] for row in entries] for name in (*PARTITION, "from_offset", "to_offset")}
    types = {"topic": pa.string(), "partition": pa.int32()}
    table = pa.table({name: pa.array(values, types.get(name, pa.int64())) for name, values in columns.items()})
    table = table.append_column("entry", pa.array(range(len(entries)), pa.int64()))
    bucket = f"explode(sequence(from_offset div {BITS * width}, (to_offset - 1) div {BITS * width}))"
    ranges = found.sparkSession.createDataFrame(table).withColumn("bucket", F.expr(bucket))
    return (
        found.withColumn("bucket", F.expr(f"word div {width}"))
        .join(F.broadcast(ranges), [*PARTITION, "bucket"])
        .withColumn("inside", _mask("from_offset", "to_offset"))
    )


def misplaced(found: Iterable[DataFrame], wrong_words: DataFrame) -> list[tuple[str, Mapping[str, int]]]:
    """Trace the landed records of a few words: each with the terms that it is found under, and how often."""
    suspects = wrong_words.select(*PARTITION, "word", "end", "start")
    records = reduce(DataFrame.unionByName, found).withColumn("word", F.expr("shiftright(offset, 6)"))
    per_record = [F.count_if(F.col("found_in") == term).alias(term) for term in FOLLOWED]
    rows = (
        records.join(F.broadcast(suspects), [*PARTITION, "word"])
        .filter("offset < end")
        .groupBy(*ORIGIN, "start")
        .agg(*per_record)
        .filter(f"(offset >= start and log != 1) or bronze != 1 or {' + '.join(TERMS)} != 1")
    )
    return [
        (f"{row.topic}/{row.partition}/{row.offset}", {term: row[term] for term in FOLLOWED})
        for row in rows.orderBy(*ORIGIN).limit(20).collect()
    ]


def _log(spark: SparkSession, snapshot: LedgerSnapshot, since: Offsets) -> DataFrame:
    """Read the part of Kafka's log that landing has accounted for and retention has left."""
    ranges: dict[tuple[str, int], tuple[int, int]] = {}
    for partition, end in snapshot.ends.items():
        low = max(since.get(partition, 0), snapshot.log_starts.get(partition, 0))
        high = min(end, snapshot.log_ends.get(partition, 0))
        if low < high:
            ranges[partition] = (low, high)
    if not ranges:
        return spark.createDataFrame([], "topic string, partition int, offset bigint, found_in string")
    starts, ends = ({partition: span[side] for partition, span in ranges.items()} for side in (0, 1))
    return (
        spark.read.format("kafka")
        .options(**spark_source_options(snapshot.settings))
        .option(
            "assign",
            json.dumps({topic: [int(number) for number in numbers] for topic, numbers in by_topic(ends).items()}),
        )
        .option("startingOffsets", json.dumps(by_topic(starts)))
        .option("endingOffsets", json.dumps(by_topic(ends)))
        .load()
        .select(*ORIGIN, F.lit("log").alias("found_in"))
    )


def _first_per_topic(snapshot: LedgerSnapshot, since: Offsets) -> dict[str, int]:
    """Return the first offset to follow of each topic, over all its partitions."""
    first: dict[str, int] = {}
    for partition in snapshot.ends.keys() | snapshot.log_ends.keys():
        first[partition[0]] = min(since.get(partition, 0), first.get(partition[0], _NO_END))
    return first


def _mask(low: str, high: str) -> Column:
    """Return the bits of a word that are offsets from `low` to before `high`, both SQL."""
    first, end = f"greatest({low} - word * 64, 0)", f"least({high} - word * 64, 64)"
    bits = f"shiftleft(shiftrightunsigned(-1L, cast(64 - ({end} - {first}) as int)), cast({first} as int))"
    return F.expr(f"case when {first} < {end} then {bits} else 0L end")
