"""The ledger check: every record of the log is in bronze once and in exactly one place after it.

Nothing here trusts the counts that landing wrote down: the log is read again, every table is read again, each record
is followed by its origin, and only then are the ledger's terms compared with what was found.
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
from streaming.landing.job import SIDE_TABLES

Found = defaultdict[str, Counter[str]]
"""The ids that were found, by topic."""


@dataclass
class LedgerCheck:
    """What was counted, topic by topic, and every sentence about what does not add up."""

    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    waiting: int = 0


def check_ledger(spark: SparkSession, settings: Settings) -> LedgerCheck:
    """Follow every record up to the last whole batch, and compare what is found with the ledger."""
    verdict, generation = LedgerCheck(), live_generation(settings)
    entries = [row for row in ledger.entries(settings, [LANDING, REDRIVE]) if row["generation"] == generation]
    if not entries:
        return verdict
    if unfinished(settings, generation):
        verdict.faults.append("A redrive runs, or was broken off; this finishes it: lakehouse quarantine redrive")
    ends = ledger.landed_up_to(settings, LANDING, generation)
    whole = spark.createDataFrame(
        [(t, p, end) for (t, p), end in ends.items()], "topic string, partition int, end bigint"
    )
    starts = begin_offsets(settings, {topic for topic, _ in ends})
    log_ends = end_offsets(settings, [name for name, topic in topics().items() if topic.archived])
    verdict.waiting = sum(max(end - ends.get(place, 0), 0) for place, end in log_ends.items())
    places = (
        _places(spark, settings, ends, generation)
        .join(F.broadcast(whole), ["topic", "partition"])
        .filter("offset < end")
    )
    terms = ["log", "bronze", *TERMS]
    followed = places.groupBy(*ORIGIN).agg(*(F.count_if(F.col("place") == t).alias(t) for t in terms)).persist()
    try:
        _each_record_once(followed, starts, verdict)
        _redrives_balance(entries, verdict)
        _entries_agree(spark, followed, net_of_redrives(entries), verdict)
        for row in followed.groupBy("topic").agg(*(F.sum(t).alias(t) for t in terms)).collect():
            verdict.counts[row.topic] = {term: row[term] for term in terms}
    finally:
        followed.unpersist()
    return verdict


def check_truth(spark: SparkSession, settings: Settings, truth: Truth) -> list[str]:
    """Compare, id by id, what was found late, duplicated and broken with what the simulator generated.

    It takes a log that is landed to its end: what still waits is nowhere yet.
    """
    generation = live_generation(settings)
    tables = {name: read(spark, name, settings, generation) for name in SIDE_TABLES}
    late = _ids(tables["silver.late"].select("topic", "event_id"))
    copies = _ids(tables["silver.duplicates"].select("topic", "event_id"))
    quarantined = tables["silver.quarantine"].select(*ORIGIN)
    headers = F.expr("cast(filter(headers, h -> h.key = 'simulator_id')[0].value as string)").alias("event_id")
    bronze = read(spark, "bronze.events", settings)
    # What others sent has no such header, and is no business of the truth's.
    broken = _ids(bronze.join(F.broadcast(quarantined), list(ORIGIN)).select("topic", headers).dropna())
    redriven = [row for row in ledger.entries(settings, [REDRIVE]) if row["generation"] == generation]
    silver = [
        read(spark, table.name, settings, generation).withColumn("topic", F.lit(table.topic))
        for table in landed_tables()
    ]
    counted = _late_in_replay(spark, settings, generation, silver)
    copied = _late_in_replay(spark, settings, generation, [tables["silver.duplicates"]])
    faults = []
    for topic in sorted(name for name in truth.records if topics()[name].archived):
        # What was redriven is by the rules of today something else than by those it landed under.
        explained = ledger.total(redriven, "input", topic)
        for what, found, generated in (
            ("late", late[topic] + counted[topic] + copied[topic], truth.late.get(topic, [])),
            ("duplicate", copies[topic] - copied[topic], truth.duplicates.get(topic, [])),
            ("malformed", broken[topic], list(truth.malformed.get(topic, {}))),
        ):
            missing = Counter(generated) - found
            surplus = found - Counter(generated)
            if (missing + surplus).total() > explained:
                told = [(i, f"generated as {what}, but not found so") for i in missing]
                told += [(i, f"found as {what}, but not generated so") for i in surplus]
                faults += [f"{topic}: {i} was {story}: lakehouse trace {i}" for i, story in told]
    return faults


def _late_in_replay(spark: SparkSession, settings: Settings, generation: int, tables: list[DataFrame]) -> Found:
    """Find, of rows with their topic, the late ones that a replay landed: it sets none aside.

    What landed before its generation was served was landed by a replay.
    """
    since = generations.served_since(settings)[generation]
    bounds: dict[tuple[str, int], tuple[int, float]] = {}
    for row in ledger.entries(settings, [LANDING]):
        allowance = topics()[row["topic"]].lateness.allowance
        if row["generation"] == generation and row["recorded_at"] < since and allowance is not None:
            place = (row["topic"], row["partition"])
            bounds[place] = max((row["to_offset"], allowance.total_seconds() * 1000), bounds.get(place, (0, 0.0)))
    if not bounds:
        return defaultdict(Counter)
    replayed = spark.createDataFrame(
        [(*place, *bound) for place, bound in bounds.items()],
        "topic string, partition int, end bigint, allowance double",
    )
    lateness = F.expr("unix_millis(arrival_time) - unix_millis(event_time)").alias("lateness")
    rows = reduce(DataFrame.unionByName, [table.select(*ORIGIN, "event_id", lateness) for table in tables])
    late = rows.join(F.broadcast(replayed), ["topic", "partition"]).filter("offset < end and lateness > allowance")
    return _ids(late.select("topic", "event_id"))


def live_generation(settings: Settings) -> int:
    """Say which generation of landing's tables is served: they are built together."""
    return max(generations.live(settings)[table.name] for table in landed_tables())


def _places(spark: SparkSession, settings: Settings, ends: ledger.Ends, generation: int) -> DataFrame:
    """List every place where a record is, by its origin: the log, bronze, and what landing made of it."""
    found = _log(spark, settings, ends).withColumn("place", F.lit("log"))
    bronze = read(spark, "bronze.events", settings).select(*ORIGIN, F.lit("bronze").alias("place"))
    found = found.unionByName(bronze)
    for table in landed_tables():
        rows = read(spark, table.name, settings, generation)
        origin = (F.lit(table.topic).alias("topic"), "partition", "offset")
        found = found.unionByName(rows.select(*origin, F.lit("silver").alias("place")))
    for name, term in SIDE_TABLES.items():
        rows = read(spark, name, settings, generation)
        found = found.unionByName(rows.select(*ORIGIN, F.lit(term).alias("place")))
    return found


def _log(spark: SparkSession, settings: Settings, ends: ledger.Ends) -> DataFrame:
    until: dict[str, dict[str, int]] = {}
    for (topic, partition), end in ends.items():
        until.setdefault(topic, {})[str(partition)] = end
    since = {topic: dict.fromkeys(partitions, -2) for topic, partitions in until.items()}
    return (
        spark.read.format("kafka")
        .options(**spark_source_options(settings))
        .option("assign", json.dumps({topic: [int(p) for p in partitions] for topic, partitions in until.items()}))
        .option("startingOffsets", json.dumps(since))
        .option("endingOffsets", json.dumps(until))
        .load()
        .select(*ORIGIN)
    )


def _each_record_once(followed: DataFrame, starts: dict[tuple[str, int], int], verdict: LedgerCheck) -> None:
    outcomes = sum((F.col(term) for term in TERMS), F.lit(0))
    spark = followed.sparkSession
    kept = spark.createDataFrame(
        [(t, p, s) for (t, p), s in starts.items()], "topic string, partition int, start bigint"
    )
    # What retention has taken from the log is judged by the archive alone.
    in_log = (F.col("offset") < F.col("start")) | (F.col("log") == 1)
    wrong = followed.join(F.broadcast(kept), ["topic", "partition"]).filter(
        ~in_log | (F.col("bronze") != 1) | (outcomes != 1)
    )
    for row in wrong.orderBy(*ORIGIN).limit(20).collect():
        verdict.faults.append(f"{row.topic}/{row.partition}/{row.offset}: {_story(row)}")


def _story(row: Row) -> str:
    found = {term: row[term] for term in ("log", "bronze", *TERMS) if row[term]}
    where = ", ".join(f"{term} {count}×" for term, count in found.items())
    return f"it must be in the log once, in bronze once and in one place after it, but is in: {where or 'nothing'}"


def _entries_agree(spark: SparkSession, followed: DataFrame, entries: ledger.Entry, verdict: LedgerCheck) -> None:
    key = ("epoch", "batch", "topic", "partition")
    columns = [*key, "from_offset", "to_offset"]
    ranges = spark.createDataFrame([tuple(row[c] for c in columns) for row in entries], columns)
    inside = "l.topic = r.topic and l.partition = r.partition and l.offset >= r.from_offset and l.offset < r.to_offset"
    joined = followed.alias("l").join(F.broadcast(ranges).alias("r"), F.expr(inside))
    sums = joined.groupBy("r.epoch", "r.batch", "r.topic", "r.partition").agg(
        F.sum("bronze").alias("input"), *(F.sum(t).alias(t) for t in TERMS)
    )
    found = {tuple(row[c] for c in key): row for row in sums.collect()}
    for entry in entries:
        place = tuple(entry[c] for c in key)
        name = f"epoch {place[0]}, batch {place[1]}, {place[2]}/{place[3]}"
        outcomes = sum(entry[term] for term in TERMS)
        if entry["input"] != outcomes:
            verdict.faults.append(f"{name}: {entry['input']} records came in, {outcomes} went somewhere")
        for term in ("input", *TERMS):
            counted = found[place][term] if place in found else 0
            if entry[term] != counted:
                verdict.faults.append(f"{name}: the ledger says {term} = {entry[term]}, the tables hold {counted}")


def _redrives_balance(entries: ledger.Entry, verdict: LedgerCheck) -> None:
    """Check the entries of redrives by themselves: what left quarantine went somewhere, and had landed."""
    landed = {offset_range(row) for row in entries if row["job"] == LANDING}
    for row in (row for row in entries if row["job"] == REDRIVE):
        name = f"redrive {row['batch']}, {row['topic']}/{row['partition']}"
        outcomes = sum(row[term] for term in TERMS)
        if row["input"] != outcomes:
            verdict.faults.append(f"{name}: {row['input']} records left quarantine, {outcomes} went somewhere")
        if offset_range(row) not in landed:
            verdict.faults.append(f"{name}: the ledger has no batch of landing from offset {row['from_offset']} on")


def _ids(rows: DataFrame) -> Found:
    found: Found = defaultdict(Counter)
    for topic, name in rows.collect():
        found[topic][name] += 1
    return found
