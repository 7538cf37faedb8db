"""The ledger: how many records each micro-batch read per Kafka partition, and how many went where.

Every term is counted by itself, never by subtraction. The ledger is written last: a batch without a ledger row is not
complete. Each job writes its own folder, because a Delta table on a local disk has one writer process.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from config.declarations import table_named
from config.failpoints import failpoint
from config.settings import Settings
from lake.batch import Batch
from lake.location import Location, table_location
from lake.tables import append_once, arrow_schema, read_arrow

TABLE = "ops.ledger"
LANDING, REDRIVE = "landing", "redrive"
TERMS = ("silver", "quarantined", "erased", "late", "duplicates")
Entry = list[dict[str, Any]]
Ends = dict[tuple[str, int], int]


def count(classified: pa.Table, batch: Batch) -> Entry:
    """Count the records of a batch per partition: all of them, and separately those of each outcome."""
    ends = [(name, end) for name in ("offset", "arrival_time") for end in ("min", "max")]
    came = _by_topic_partition(classified, [([], "count_all"), ("size", "sum"), *ends])
    events = classified.select(["topic", "partition", "event_time"])
    ways = {term: events.filter(pc.equal(classified["outcome"], term)) for term in TERMS}
    counts = {term: _by_topic_partition(rows, [([], "count_all")]) for term, rows in ways.items()}
    times = _by_topic_partition(ways["silver"], [("event_time", "min"), ("event_time", "max")])
    written_by = {"job": batch.job, "generation": batch.generation, "epoch": batch.epoch, "batch": batch.id}
    return [
        {
            **written_by,
            "topic": topic,
            "partition": partition,
            "from_offset": row["offset_min"],
            "to_offset": row["offset_max"] + 1,
            "input": row["count_all"],
            **{term: counts[term].get((topic, partition), {}).get("count_all", 0) for term in TERMS},
            "bytes": row["size_sum"],
            "min_event_time": times.get((topic, partition), {}).get("event_time_min"),
            "max_event_time": times.get((topic, partition), {}).get("event_time_max"),
            "min_arrival_time": row["arrival_time_min"],
            "max_arrival_time": row["arrival_time_max"],
        }
        for (topic, partition), row in came.items()
    ]


def _by_topic_partition(rows: pa.Table, measures: list[Any]) -> dict[tuple[str, int], dict[str, Any]]:
    found = rows.group_by(["topic", "partition"], use_threads=False).aggregate(measures).to_pylist()
    return {(row["topic"], row["partition"]): row for row in found}


def total(entry: Entry, term: str, topic: str | None = None) -> int:
    """Add up a term over an entry, for all topics or one."""
    return sum(int(row[term]) for row in entry if topic in (None, row["topic"]))


def record_entry(entry: Entry, batch: Batch) -> None:
    """Append the entry of a batch, once."""
    now = datetime.now(UTC)
    rows = [{**row, "recorded_at": now} for row in entry]
    table = pa.Table.from_pylist(rows, arrow_schema(table_named(TABLE)))
    append_once(folder(batch.settings, batch.job, batch.generation), table, batch.txn_app_id, batch.id)
    failpoint("after ops.ledger")


def entries(settings: Settings, jobs: Iterable[str] | None = None) -> Entry:
    """Read the ledger of all jobs, or of some, in batch order."""
    found: Entry = []
    for path in _folders(settings, jobs, "g[0-9]*"):
        found += read_arrow(path).to_pylist()
    return sorted(found, key=lambda row: (row["job"], row["generation"], row["epoch"], row["batch"]))


def recorded(settings: Settings, jobs: Iterable[str], generation: int) -> pa.Table:
    """Read the entries of some jobs for a generation, without making a Python object of each."""
    tables = [read_arrow(path) for path in _folders(settings, jobs, f"g{generation}")]
    found = pa.concat_tables([arrow_schema(table_named(TABLE)).empty_table(), *tables], promote_options="default")
    return found.sort_by([(name, "ascending") for name in ("job", "epoch", "batch")])


def _folders(settings: Settings, jobs: Iterable[str] | None, generations: str) -> list[Location]:
    names = list(jobs) if jobs is not None else ["*"]
    root = table_location(settings, TABLE)
    return sorted(
        job for generation in root.children(generations) for name in names for job in generation.children(name)
    )


def records_read(settings: Settings) -> int:
    """Return how many records landing has read, by the generation that read most: about the size of the archive."""
    of_generations = [
        pc.sum(read_arrow(job, columns=["input"])["input"]).as_py() or 0
        for generation in table_location(settings, TABLE).children("g[0-9]*")
        for job in generation.children(LANDING)
        if job.is_table()
    ]
    return max(of_generations, default=0)


def landed_up_to(settings: Settings, job: str, generation: int, by: datetime | None = None) -> Ends:
    """Return, for each partition, the offset after the last one in the ledger, now or at an earlier time."""
    return ends_of(
        row
        for row in entries(settings, [job])
        if row["generation"] == generation and (by is None or row["recorded_at"] <= by)
    )


def ends_of(entries: Iterable[dict[str, Any]]) -> Ends:
    """Return, for each partition, the offset after the last one of some entries."""
    ends: Ends = {}
    for row in entries:
        partition = (row["topic"], row["partition"])
        ends[partition] = max(ends.get(partition, 0), row["to_offset"])
    return ends


def landed_from(settings: Settings, job: str, generation: int) -> Ends:
    """Return, for each partition, the first offset in the ledger."""
    begins: Ends = {}
    for row in entries(settings, [job]):
        if row["generation"] == generation:
            partition = (row["topic"], row["partition"])
            begins[partition] = min(begins.get(partition, row["from_offset"]), row["from_offset"])
    return begins


def disorder(settings: Settings, topic: str, generation: int) -> timedelta:
    """Return how far back in event time a batch of a topic reached behind what had landed before it."""
    worst, high = timedelta(0), None
    for _, batch in groupby(
        (row for row in entries(settings, ["landing"]) if row["generation"] == generation and row["topic"] == topic),
        key=lambda row: (row["epoch"], row["batch"]),
    ):
        landed = [row for row in batch if row["min_event_time"] is not None]
        if landed:
            lowest, highest = min(r["min_event_time"] for r in landed), max(r["max_event_time"] for r in landed)
            worst = max(worst, high - lowest) if high else worst
            high = max(high, highest) if high else highest
    return worst


@dataclass(frozen=True)
class Skew:
    """How far back in arrival time a batch reached behind earlier ones: partitions were read at different paces."""

    behind: timedelta
    topic: str
    epoch: int
    batch: int

    def within(self, budget: timedelta) -> bool:
        """Return whether the watermark delay of downstream jobs covers it."""
        return self.behind <= budget

    def __str__(self) -> str:
        """Describe it in one sentence."""
        seconds = round(self.behind.total_seconds())
        where = f"epoch {self.epoch}, batch {self.batch}"
        return f"{self.topic}: partitions were read up to {seconds // 60} min {seconds % 60} s apart ({where})"


def greatest_skew(settings: Settings, job: str, generation: int) -> Skew | None:
    """Return the batch that reached back furthest, or None."""
    read: dict[str, datetime] = {}
    found: list[Skew] = []
    ours = (row for row in entries(settings, [job]) if row["generation"] == generation)
    for (epoch, batch, topic), rows in groupby(sorted(ours, key=_batch_of), key=_batch_of):
        parts = list(rows)
        first = min((row["min_arrival_time"] for row in parts if row.get("min_arrival_time")), default=None)
        if first and topic in read and first < read[topic]:
            found.append(Skew(read[topic] - first, topic, epoch, batch))
        lasts = [row["max_arrival_time"] for row in parts if row["max_arrival_time"]]
        if lasts:
            read[topic] = max(*lasts, read.get(topic, lasts[0]))
    return max(found, key=lambda skew: skew.behind, default=None)


def _batch_of(row: dict[str, Any]) -> tuple[int, int, str]:
    return row["epoch"], row["batch"], row["topic"]


def folder(settings: Settings, job: str, generation: int) -> Location:
    """Return the location of a job's ledger; each generation has its own, because they are written concurrently."""
    return table_location(settings, TABLE) / f"g{generation}" / job


def net_of_redrives(entries: Entry) -> Entry:
    """Return landing's entries, less what was redriven out of quarantine since, plus where it went.

    A redrive entry counts how many records of an offset range left quarantine (`input`) and, term by term, where they
    went.
    """
    ranges = {offset_range(row): dict(row) for row in entries if row["job"] == LANDING}
    for row in entries:
        if row["job"] == REDRIVE and offset_range(row) in ranges:
            entry = ranges[offset_range(row)]
            entry["quarantined"] -= row["input"]
            for term in TERMS:
                entry[term] += row[term]
    return list(ranges.values())


def by_partition(entries: Entry) -> dict[tuple[str, int], dict[str, int]]:
    """Add up the terms per partition, net of redrives, and the offset up to which they hold (`until`)."""
    found: dict[tuple[str, int], dict[str, int]] = {}
    for row in net_of_redrives(entries):
        sums = found.setdefault((row["topic"], row["partition"]), dict.fromkeys(("until", "input", *TERMS), 0))
        sums["until"] = max(sums["until"], row["to_offset"])
        for term in ("input", *TERMS):
            sums[term] += row[term]
    return found


def offset_range(row: dict[str, Any]) -> tuple[str, int, int]:
    """Identify a range of offsets: no two ranges of a partition start at the same offset."""
    return row["topic"], row["partition"], row["from_offset"]
