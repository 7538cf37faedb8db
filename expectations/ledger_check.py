"""The ledger check: every Kafka record is in bronze once and in exactly one table after it.

It does not trust the counts that landing recorded. It rereads Kafka and every table, traces each record by topic,
partition and offset, and only then compares the counts with the ledger.
"""

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from config.declarations import landed_tables, topics
from config.kafka import begin_offsets, end_offsets, spark_source_options
from config.settings import Settings
from expectations.quarantine.plan import unfinished
from lake import generations, ledger
from lake.ledger import LANDING, REDRIVE, TERMS, net_of_redrives, offset_range
from lake.tables import ORIGIN, read
from local.simulator.truth import Truth
from streaming.landing.archive import by_topic
from streaming.landing.write import SIDE_TABLES

IdsByTopic = defaultdict[str, Counter[str]]


@dataclass
class LedgerCheck:
    """The counts per topic, and a message for each fault."""

    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    waiting: int = 0
    """Records in Kafka that are not landed yet."""


def check_ledger(spark: SparkSession, settings: Settings) -> LedgerCheck:
    """Trace every record up to the last complete batch, and compare the counts with the ledger."""
    result, generation = LedgerCheck(), live_generation(settings)
    entries = [row for row in ledger.entries(settings, [LANDING, REDRIVE]) if row["generation"] == generation]
    if not entries:
        return result
    if unfinished(settings, generation):
        result.faults.append("A redrive is running or was interrupted; to finish it: lakehouse quarantine redrive")
    ends = ledger.landed_up_to(settings, LANDING, generation)
    landed = spark.createDataFrame(
        [(t, p, end) for (t, p), end in ends.items()], "topic string, partition int, end bigint"
    )
    starts = begin_offsets(settings, {topic for topic, _ in ends})
    log_ends = end_offsets(settings, [name for name, topic in topics().items() if topic.archived])
    result.waiting = sum(max(end - ends.get(partition, 0), 0) for partition, end in log_ends.items())
    occurrences = (
        _occurrences(spark, settings, ends, generation)
        .join(F.broadcast(landed), ["topic", "partition"])
        .filter("offset < end")
    )
    terms = ["log", "bronze", *TERMS]
    per_record = [F.count_if(F.col("found_in") == term).alias(term) for term in terms]
    traced = occurrences.groupBy(*ORIGIN).agg(*per_record).persist()
    try:
        _each_record_once(traced, starts, result)
        _redrives_balance(entries, result)
        _entries_agree(spark, traced, net_of_redrives(entries), result)
        for row in traced.groupBy("topic").agg(*(F.sum(t).alias(t) for t in terms)).collect():
            result.counts[row.topic] = {term: row[term] for term in terms}
    finally:
        traced.unpersist()
    return result


def check_truth(spark: SparkSession, settings: Settings, truth: Truth) -> list[str]:
    """Compare, id by id, the late, duplicate and malformed records with those that the simulator generated.

    All records must be landed: a record that still waits is in no table yet.
    """
    generation = live_generation(settings)
    side_tables = {name: read(spark, name, settings, generation) for name in SIDE_TABLES}
    late = _ids(side_tables["silver.late"].select("topic", "event_id"))
    duplicates = _ids(side_tables["silver.duplicates"].select("topic", "event_id"))
    quarantined = side_tables["silver.quarantine"].select(*ORIGIN)
    simulator_id = F.expr("cast(filter(headers, h -> h.key = 'simulator_id')[0].value as string)").alias("event_id")
    bronze = read(spark, "bronze.events", settings)
    # Records from other producers lack this header, and the truth does not know them.
    malformed = _ids(bronze.join(F.broadcast(quarantined), list(ORIGIN)).select("topic", simulator_id).dropna())
    redriven = [row for row in ledger.entries(settings, [REDRIVE]) if row["generation"] == generation]
    silver = [
        read(spark, table.name, settings, generation).withColumn("topic", F.lit(table.topic))
        for table in landed_tables()
    ]
    late_in_silver = _late_in_replay(spark, settings, generation, silver)
    late_duplicates = _late_in_replay(spark, settings, generation, [side_tables["silver.duplicates"]])
    faults = []
    for topic in sorted(name for name in truth.records if topics()[name].archived):
        # A redriven record has another outcome by the current rules than by those it landed under.
        allowed = ledger.total(redriven, "input", topic)
        for what, found, generated in (
            ("late", late[topic] + late_in_silver[topic] + late_duplicates[topic], truth.late.get(topic, [])),
            ("duplicate", duplicates[topic] - late_duplicates[topic], truth.duplicates.get(topic, [])),
            ("malformed", malformed[topic], list(truth.malformed.get(topic, {}))),
        ):
            missing = Counter(generated) - found
            surplus = found - Counter(generated)
            if (missing + surplus).total() > allowed:
                faults += [_truth_fault(topic, i, f"was generated as {what}, but not found as such") for i in missing]
                faults += [_truth_fault(topic, i, f"was found as {what}, but not generated as such") for i in surplus]
    return faults


def _truth_fault(topic: str, event_id: str, problem: str) -> str:
    return f"{topic}: {event_id} {problem}: lakehouse trace {event_id}"


def _late_in_replay(spark: SparkSession, settings: Settings, generation: int, tables: list[DataFrame]) -> IdsByTopic:
    """Find the late events that a replay landed in these tables: a replay writes no silver.late.

    Records that landed before their generation was served were landed by a replay.
    """
    since = generations.served_since(settings)[generation]
    bounds: dict[tuple[str, int], tuple[int, float]] = {}
    for row in ledger.entries(settings, [LANDING]):
        allowance = topics()[row["topic"]].lateness.allowance
        if row["generation"] == generation and row["recorded_at"] < since and allowance is not None:
            partition = (row["topic"], row["partition"])
            bound = (row["to_offset"], allowance.total_seconds() * 1000)
            bounds[partition] = max(bound, bounds.get(partition, (0, 0.0)))
    if not bounds:
        return defaultdict(Counter)
    replayed = spark.createDataFrame(
        [(*partition, *bound) for partition, bound in bounds.items()],
        "topic string, partition int, end bigint, allowance double",
    )
    lateness = F.expr("unix_millis(arrival_time) - unix_millis(event_time)").alias("lateness")
    rows = reduce(DataFrame.unionByName, [table.select(*ORIGIN, "event_id", lateness) for table in tables])
    late = rows.join(F.broadcast(replayed), ["topic", "partition"]).filter("offset < end and lateness > allowance")
    return _ids(late.select("topic", "event_id"))


def live_generation(settings: Settings) -> int:
    """Return the served generation of landing's tables, which are always built together."""
    return max(generations.live(settings)[table.name] for table in landed_tables())


def _occurrences(spark: SparkSession, settings: Settings, ends: ledger.Ends, generation: int) -> DataFrame:
    """List every occurrence of every record, by origin: in Kafka, in bronze, and in silver and the side tables."""
    occurrences = _log(spark, settings, ends).withColumn("found_in", F.lit("log"))
    bronze = read(spark, "bronze.events", settings).select(*ORIGIN, F.lit("bronze").alias("found_in"))
    occurrences = occurrences.unionByName(bronze)
    for table in landed_tables():
        rows = read(spark, table.name, settings, generation)
        origin = (F.lit(table.topic).alias("topic"), "partition", "offset")
        occurrences = occurrences.unionByName(rows.select(*origin, F.lit("silver").alias("found_in")))
    for name, term in SIDE_TABLES.items():
        rows = read(spark, name, settings, generation)
        occurrences = occurrences.unionByName(rows.select(*ORIGIN, F.lit(term).alias("found_in")))
    return occurrences


def _log(spark: SparkSession, settings: Settings, ends: ledger.Ends) -> DataFrame:
    ending = by_topic(ends)
    starting = {topic: dict.fromkeys(partitions, -2) for topic, partitions in ending.items()}
    return (
        spark.read.format("kafka")
        .options(**spark_source_options(settings))
        .option("assign", json.dumps({topic: [int(p) for p in partitions] for topic, partitions in ending.items()}))
        .option("startingOffsets", json.dumps(starting))
        .option("endingOffsets", json.dumps(ending))
        .load()
        .select(*ORIGIN)
    )


def _each_record_once(traced: DataFrame, starts: dict[tuple[str, int], int], result: LedgerCheck) -> None:
    outcomes = sum((F.col(term) for term in TERMS), F.lit(0))
    spark = traced.sparkSession
    log_starts = spark.createDataFrame(
        [(t, p, s) for (t, p), s in starts.items()], "topic string, partition int, start bigint"
    )
    # Records that retention deleted from Kafka are checked against the archive alone.
    in_log = (F.col("offset") < F.col("start")) | (F.col("log") == 1)
    wrong = traced.join(F.broadcast(log_starts), ["topic", "partition"]).filter(
        ~in_log | (F.col("bronze") != 1) | (outcomes != 1)
    )
    for row in wrong.orderBy(*ORIGIN).limit(20).collect():
        result.faults.append(f"{row.topic}/{row.partition}/{row.offset}: {_misplaced(row)}")


def _misplaced(row: Row) -> str:
    counts = {term: row[term] for term in ("log", "bronze", *TERMS) if row[term]}
    found_in = ", ".join(f"{term} {count}×" for term, count in counts.items())
    return f"it must be in the log once, in bronze once and in one table after it, but is in: {found_in or 'none'}"


def _entries_agree(spark: SparkSession, traced: DataFrame, entries: ledger.Entry, result: LedgerCheck) -> None:
    key = ("epoch", "batch", "topic", "partition")
    columns = [*key, "from_offset", "to_offset"]
    ranges = spark.createDataFrame([tuple(row[c] for c in columns) for row in entries], columns)
    inside = "l.topic = r.topic and l.partition = r.partition and l.offset >= r.from_offset and l.offset < r.to_offset"
    joined = traced.alias("l").join(F.broadcast(ranges).alias("r"), F.expr(inside))
    sums = joined.groupBy("r.epoch", "r.batch", "r.topic", "r.partition").agg(
        F.sum("bronze").alias("input"), *(F.sum(t).alias(t) for t in TERMS)
    )
    counted = {tuple(row[c] for c in key): row for row in sums.collect()}
    for entry in entries:
        entry_key = tuple(entry[c] for c in key)
        name = "epoch {}, batch {}, {}/{}".format(*entry_key)
        outcomes = sum(entry[term] for term in TERMS)
        if entry["input"] != outcomes:
            result.faults.append(f"{name}: {entry['input']} records came in, {outcomes} have an outcome")
        for term in ("input", *TERMS):
            in_tables = counted[entry_key][term] if entry_key in counted else 0
            if entry[term] != in_tables:
                result.faults.append(f"{name}: the ledger has {term} = {entry[term]}, the tables have {in_tables}")


def _redrives_balance(entries: ledger.Entry, result: LedgerCheck) -> None:
    """Check the entries of redrives: each record that left quarantine has an outcome, and had been landed."""
    landed = {offset_range(row) for row in entries if row["job"] == LANDING}
    for row in (row for row in entries if row["job"] == REDRIVE):
        name = f"redrive {row['batch']}, {row['topic']}/{row['partition']}"
        outcomes = sum(row[term] for term in TERMS)
        if row["input"] != outcomes:
            result.faults.append(f"{name}: {row['input']} records left quarantine, {outcomes} have an outcome")
        if offset_range(row) not in landed:
            result.faults.append(f"{name}: the ledger has no landing batch that starts at offset {row['from_offset']}")


def _ids(rows: DataFrame) -> IdsByTopic:
    ids: IdsByTopic = defaultdict(Counter)
    for topic, event_id in rows.collect():
        ids[topic][event_id] += 1
    return ids
