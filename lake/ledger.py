"""The ledger: what came in and where it went, for every micro-batch and Kafka partition.

Every term is counted for itself; none is what is left over of the others. The ledger is written last: a batch
without its row in it is not whole. Each job has a folder of its own, because each process writes only its own tables.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from config.declarations import table_named
from config.failpoints import failpoint
from config.settings import Settings
from lake.batch import Batch
from lake.tables import append_once, arrow_schema, read_arrow

TABLE = "ops.ledger"
LANDING, REDRIVE = "landing", "redrive"
TERMS = ("silver", "quarantined", "erased", "late", "duplicates")
Entry = list[dict[str, Any]]
Ends = dict[tuple[str, int], int]


def count(verdicts: pa.Table, batch: Batch) -> Entry:
    """Count a batch by topic and partition: its records, and each way they went, each by itself."""
    ends = [(name, end) for name in ("offset", "arrival_time") for end in ("min", "max")]
    came = _by_place(verdicts, [([], "count_all"), ("size", "sum"), *ends])
    placed = verdicts.select(["topic", "partition", "event_time"])
    ways = {term: placed.filter(pc.equal(verdicts["verdict"], term)) for term in TERMS}
    counts = {term: _by_place(rows, [([], "count_all")]) for term, rows in ways.items()}
    times = _by_place(ways["silver"], [("event_time", "min"), ("event_time", "max")])
    place = {"job": batch.job, "generation": batch.generation, "epoch": batch.epoch, "batch": batch.id}
    return [
        {
            **place,
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


def _by_place(rows: pa.Table, measures: list[Any]) -> dict[tuple[str, int], dict[str, Any]]:
    found = rows.group_by(["topic", "partition"], use_threads=False).aggregate(measures).to_pylist()
    return {(row["topic"], row["partition"]): row for row in found}


def total(entry: Entry, term: str, topic: str | None = None) -> int:
    """Add up a term of an entry, over all its topics or one."""
    return sum(int(row[term]) for row in entry if topic in (None, row["topic"]))


def record_entry(entry: Entry, batch: Batch) -> None:
    """Write the entry of a batch, once."""
    now = datetime.now(UTC)
    rows = [{**row, "recorded_at": now} for row in entry]
    table = pa.Table.from_pylist(rows, arrow_schema(table_named(TABLE)))
    append_once(folder(batch.settings, batch.job, batch.generation), table, batch.txn_app_id, batch.id)
    failpoint("after ops.ledger")


def entries(settings: Settings, jobs: Iterable[str] | None = None) -> Entry:
    """Read the ledger: all jobs' folders, or those named, in the order in which batches were done."""
    names = list(jobs) if jobs is not None else ["*"]
    root = table_named(TABLE).path(settings.warehouse)
    found: Entry = []
    for path in sorted(path for name in names for path in root.glob(f"g[0-9]*/{name}")):
        found += read_arrow(path).to_pylist()
    return sorted(found, key=lambda row: (row["job"], row["generation"], row["epoch"], row["batch"]))


def landed_up_to(settings: Settings, job: str, generation: int) -> Ends:
    """Give, for each partition, the offset after the last one the ledger has."""
    ends: Ends = {}
    for row in entries(settings, [job]):
        if row["generation"] == generation:
            place = (row["topic"], row["partition"])
            ends[place] = max(ends.get(place, 0), row["to_offset"])
    return ends


def disorder(settings: Settings, topic: str, generation: int) -> timedelta:
    """Measure how far, in event time, a batch of a topic reached back behind what had landed before it."""
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
    """How far, in arrival time, a batch reached back behind what was read of its topic before: partitions lie apart."""

    behind: timedelta
    topic: str
    epoch: int
    batch: int

    def within(self, budget: timedelta) -> bool:
        """Tell whether the jobs that follow wait long enough for it."""
        return self.behind <= budget

    def __str__(self) -> str:
        """Say it in a sentence."""
        seconds = round(self.behind.total_seconds())
        where = f"epoch {self.epoch}, batch {self.batch}"
        return f"{self.topic}: partitions were read up to {seconds // 60} min {seconds % 60} s apart ({where})"


def greatest_skew(settings: Settings, job: str, generation: int) -> Skew | None:
    """Find the batch that reached back the furthest; none where no batch did."""
    read: dict[str, datetime] = {}
    found: list[Skew] = []
    ours = (row for row in entries(settings, [job]) if row["generation"] == generation)
    for (epoch, batch, topic), rows in groupby(sorted(ours, key=_place), key=_place):
        parts = list(rows)
        first = min((row["min_arrival_time"] for row in parts if row.get("min_arrival_time")), default=None)
        if first and topic in read and first < read[topic]:
            found.append(Skew(read[topic] - first, topic, epoch, batch))
        last = max(row["max_arrival_time"] for row in parts)
        read[topic] = max(last, read.get(topic, last))
    return max(found, key=lambda skew: skew.behind, default=None)


def _place(row: dict[str, Any]) -> tuple[int, int, str]:
    return row["epoch"], row["batch"], row["topic"]


def folder(settings: Settings, job: str, generation: int) -> Path:
    """Say where a job's part of the ledger is: one for each generation, as those are written side by side."""
    return table_named(TABLE).path(settings.warehouse) / f"g{generation}" / job


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
    """Add up, for each partition of the log, what stands where, and how far (`until`) that reaches."""
    found: dict[tuple[str, int], dict[str, int]] = {}
    for row in net_of_redrives(entries):
        place = found.setdefault((row["topic"], row["partition"]), dict.fromkeys(("until", "input", *TERMS), 0))
        place["until"] = max(place["until"], row["to_offset"])
        for term in ("input", *TERMS):
            place[term] += row[term]
    return found


def offset_range(row: dict[str, Any]) -> tuple[str, int, int]:
    """Identify a range of offsets: no two ranges of a partition start at the same offset."""
    return row["topic"], row["partition"], row["from_offset"]
