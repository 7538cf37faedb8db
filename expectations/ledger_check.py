"""The ledger check: every Kafka record is in bronze once and in exactly one table after it.

It does not trust the counts that landing recorded. It rereads Kafka and every table, finds each record by topic,
partition and offset, and only then compares the counts with the ledger. What the last passed check has proved, and
nothing has changed since, is not read again (expectations/ledger_proof.py).
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from config.declarations import landed_tables, topics
from config.settings import Settings
from expectations import ledger_entries, ledger_proof, ledger_snapshot, offset_words
from expectations.ledger_proof import Proof
from expectations.ledger_snapshot import LedgerSnapshot, live_generation
from expectations.offset_words import FOLLOWED
from expectations.quarantine.plan import unfinished
from lake import generations, ledger, losses
from lake.ledger import LANDING, REDRIVE
from lake.tables import ORIGIN, read
from local.simulator.truth import Truth
from streaming.landing.write import SIDE_TABLES

IdsByTopic = defaultdict[str, Counter[str]]


@dataclass
class LedgerCheck:
    """The counts per topic, and a message for each fault."""

    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    waiting: int = 0
    """Records in Kafka that are not landed yet."""

    losses: list[str] = field(default_factory=list)
    """The accepted losses: offsets that Kafka deleted before they were landed."""

    proved_at: datetime | None = None
    """When the records were proved that were not followed again; None if all were followed."""

    not_covered: str | None = None
    """Why the last proof does not hold any more, so that all records were followed."""


def check_ledger(spark: SparkSession, settings: Settings, *, full: bool = False) -> LedgerCheck:
    """Follow every record up to the last complete batch, and compare the counts with the ledger.

    full: follow also the records that the last proof covers.
    """
    if not len(ledger.recorded(settings, [LANDING], live_generation(settings))):
        return LedgerCheck()
    snapshot = ledger_snapshot.take(settings)
    proof = None if full else ledger_proof.load(settings, snapshot.generation)
    if proof is None:
        return _check(spark, snapshot)
    broken_by = ledger_proof.broken_by(proof, snapshot)
    if broken_by is None:
        result = _check(spark, snapshot, proof)
        if not result.not_covered:
            return result
        broken_by = result.not_covered
    return replace(_check(spark, snapshot), not_covered=broken_by)


def _check(spark: SparkSession, snapshot: LedgerSnapshot, proof: Proof | None = None) -> LedgerCheck:
    """Check what a proof does not cover; without faults, the result is the next proof."""
    since = proof.since if proof else {}
    result = LedgerCheck(waiting=snapshot.waiting, proved_at=proof.proved_at if proof else None)
    if unfinished(snapshot.settings, snapshot.generation):
        result.faults.append("A redrive is running or was interrupted; to finish it: lakehouse quarantine redrive")
    found = offset_words.occurrences(spark, snapshot, since)
    words = offset_words.words(snapshot, found, since).persist()
    try:
        sums = offset_words.per_partition(words, ledger_proof.settled(snapshot))
        if proof and (changed := _changed_since(proof, snapshot, sums)):
            result.not_covered = changed
            return result
        _log_covers_ledger(snapshot, result)
        if any(counts["wrong"] for counts in sums.values()):
            wrong = words.filter(offset_words.is_wrong()).orderBy("topic", "partition", "word").limit(20)
            for origin, found_in in offset_words.misplaced(found, wrong):
                result.faults.append(f"{origin}: {_misplaced(found_in)}")
        result.faults += ledger_entries.faults(words, snapshot, since, sums)
    finally:
        words.unpersist()
    rows = _proved_rows(proof, snapshot, sums)
    _count(proof, snapshot, sums, result)
    if not result.faults:
        ledger_proof.save(snapshot, rows)
    return result


def _changed_since(proof: Proof, snapshot: LedgerSnapshot, sums: ledger_proof.Sums) -> str | None:
    """Return a table that has other rows before the proved offsets than the proof, or None."""
    tables: list[tuple[str, str, str | None]] = [(name, term, None) for name, term in snapshot.of_all_topics()]
    tables += [(table.name, "silver", table.topic) for table in snapshot.of_one_topic()]
    for name, term, topic in tables:
        now = sum(counts[f"{term}_rows"] for (each, _), counts in sums.items() if topic in (None, each))
        if snapshot.tables[name].rows != proof.total(term, topic) + now:
            return f"rows of records that were proved before have been added to {name}"
    return None


def _proved_rows(proof: Proof | None, snapshot: LedgerSnapshot, sums: ledger_proof.Sums) -> ledger_proof.Sums:
    """Add the rows of the whole words that were followed to those that were proved before."""
    found: ledger_proof.Sums = {}
    for partition in ledger_proof.settled(snapshot):
        before = proof.rows.get(partition, {}) if proof else {}
        new = sums.get(partition, {})
        found[partition] = {term: before.get(term, 0) + new.get(f"{term}_settled", 0) for term in FOLLOWED}
    return found


def _count(proof: Proof | None, snapshot: LedgerSnapshot, sums: ledger_proof.Sums, result: LedgerCheck) -> None:
    """Count the landed records per topic, proved before and now, and list the losses."""
    for topic in sorted({topic for topic, _ in snapshot.ends}):
        counts = {term: proof.total(term, topic) if proof else 0 for term in FOLLOWED}
        for (name, _), found in sums.items():
            if name == topic:
                counts = {term: counts[term] + found[term] for term in FOLLOWED}
        result.counts[topic] = counts | {"lost": sum(row["lost"] for row in snapshot.losses if row["topic"] == topic)}
    for row in snapshot.losses:
        span = losses.describe({(row["topic"], row["partition"]): (row["from_offset"], row["to_offset"])})
        result.losses.append(f"{span}, accepted on {row['recorded_at']:%Y-%m-%d %H:%M}: {row['reason']}")


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


def _log_covers_ledger(snapshot: LedgerSnapshot, result: LedgerCheck) -> None:
    for (topic, partition), end in snapshot.ends.items():
        if snapshot.log_ends.get((topic, partition), 0) < end:
            result.faults.append(
                f"{topic}/{partition}: offsets up to {end - 1:,} are landed, but Kafka's log ends at "
                f"{snapshot.log_ends.get((topic, partition), 0):,}: it is not the log that was landed"
            )


def _misplaced(counts: Mapping[str, int]) -> str:
    found_in = ", ".join(f"{term} {count}×" for term, count in counts.items() if count)
    return f"it must be in the log once, in bronze once and in one table after it, but is in: {found_in or 'none'}"


def _ids(rows: DataFrame) -> IdsByTopic:
    ids: IdsByTopic = defaultdict(Counter)
    for topic, event_id in rows.collect():
        ids[topic][event_id] += 1
    return ids
