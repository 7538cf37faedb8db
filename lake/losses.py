"""Losses: offsets that Kafka deleted before a job had read them, and the reason why the job went on without them.

A loss is a ledger row of a writer of its own, `<job>.lost`: no batch read it, so its input and outcomes are 0, and
`lost` counts its offsets. It is a fact about the log, so it counts in every generation that has landed up to it.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

import pyarrow as pa

from config.declarations import table_named
from config.kafka import Offsets, begin_offsets
from config.settings import Settings
from lake import ledger
from lake.generations import FIRST
from lake.ledger import TABLE, TERMS, Ends, Entry
from lake.tables import append_once, arrow_schema

Ranges = Mapping[tuple[str, int], tuple[int, int]]
"""Per partition, the first lost offset and the first offset after the loss."""


def find(settings: Settings, positions: Offsets) -> Ranges:
    """Return the offsets from a position on that Kafka no longer has, for each partition that lacks some."""
    starts = begin_offsets(settings, {topic for topic, _ in positions})
    return {
        partition: (position, starts[partition])
        for partition, position in positions.items()
        if starts.get(partition, 0) > position
    }


def describe(ranges: Ranges) -> str:
    """List ranges in one line."""
    return ", ".join(
        f"{topic}/{partition} offsets {low:,} to {high - 1:,} ({high - low:,})"
        for (topic, partition), (low, high) in sorted(ranges.items())
    )


def record(settings: Settings, job: str, ranges: Ranges, reason: str) -> None:
    """Record that a job goes on after a loss; a loss that is recorded already is left as it is."""
    writer, now = f"{job}.lost", datetime.now(UTC)
    number = len(recorded(settings, job))
    for batch, ((topic, partition), (low, high)) in enumerate(sorted(ranges.items()), number):
        written_by = {
            "job": writer,
            "generation": FIRST,
            "epoch": 1,
            "batch": batch,
            "topic": topic,
            "partition": partition,
        }
        counts = dict.fromkeys(("input", *TERMS, "bytes"), 0) | {"lost": high - low, "reason": reason}
        row = {**written_by, "from_offset": low, "to_offset": high, **counts, "recorded_at": now}
        rows = pa.Table.from_pylist([row], arrow_schema(table_named(TABLE)))
        append_once(ledger.folder(settings, writer, FIRST), rows, f"{writer}/{topic}/{partition}", high)


def recorded(settings: Settings, job: str) -> Entry:
    """Return the recorded losses of a job."""
    return ledger.entries(settings, [f"{job}.lost"])


def past_losses(ends: Ends, losses: Entry) -> Ends:
    """Move each end over the losses that begin there."""
    found = dict(ends)
    for row in sorted(losses, key=lambda row: int(row["from_offset"])):
        partition = (row["topic"], row["partition"])
        if partition in found and row["from_offset"] <= found[partition]:
            found[partition] = max(found[partition], row["to_offset"])
    return found


def accounted_up_to(settings: Settings, job: str, generation: int) -> Ends:
    """Return, for each partition, the offset after the last one that was landed or is recorded as lost."""
    return past_losses(ledger.landed_up_to(settings, job, generation), recorded(settings, job))
