"""Import of a home: the archive of an old home, whose log was lost -> the empty log of a new home.

Offsets of the new log start at 0 again, so the records cannot continue the old tables, whose rows are identified by
offset. They are landed again, into new tables, from a copy of the old log: the same partitions, order, keys, values,
headers and arrival times.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc

from config.declarations import topics
from config.errors import LakehouseError
from config.failpoints import failpoint
from config.kafka import end_offsets
from config.settings import Settings
from lake import ledger
from lake.ledger import LANDING
from lake.location import table_location
from operations.imports.position import Position, write_position
from operations.imports.send import check_topic, produce
from streaming.kafka.transactions import Message
from streaming.set_aside import active, set_aside

OFFSETS_PER_CHUNK = 100_000
"""Offsets of a partition that are in memory at a time."""

UNKNOWN_ARRIVAL_MS = 0
"""Timestamp of a record whose own could not be true when it was first read.

Its own may be in the past by now, and landing would believe it; this one it never believes.
"""

_COLUMNS = ("offset", "key", "value", "headers")


@dataclass(frozen=True)
class ArchivedPartition:
    """The records of one partition of the old log, as the archive has them."""

    topic: str
    partition: int
    records: int
    first_offset: int
    last_offset: int
    earliest_ms: int | None
    """The first arrival; None if no record has a believable one."""
    latest_ms: int | None
    without_arrival: int


class OldHome:
    """The archive of another home, in the version that it has now."""

    def __init__(self, settings: Settings, home: Path) -> None:
        if home.resolve() == settings.home.resolve():
            raise LakehouseError(
                f"{home} is the home that would be imported into.",
                "Set LAKEHOUSE_HOME to a new folder, and name the old home in the command.",
            )
        self.settings = settings.at(home)
        location = table_location(self.settings, "bronze.events")
        if not location.is_table():
            raise LakehouseError(
                f"{home} has no archive: there is no Delta table at {location}.", "Name the folder of the old home."
            )
        table = location.table()
        self._dataset = table.to_pyarrow_dataset()
        self.id = _import_id(table)
        self.partitions = _partitions(self._dataset)
        if not self.partitions:
            raise LakehouseError(f"The archive of {home} is empty.", "There is nothing to import.")

    @property
    def position(self) -> Position:
        """Return the position before the first record."""
        arrivals = [each.earliest_ms for each in self.partitions if each.earliest_ms is not None]
        return Position(sum(each.records for each in self.partitions), min(arrivals, default=0))

    def messages(self, skipped: int) -> Iterator[tuple[Message, int]]:
        """Return the records by topic, partition and offset, each with its old offset, after those to skip."""
        for part in self.partitions:
            if skipped >= part.records:
                skipped -= part.records
                continue
            for start in range(part.first_offset, part.last_offset + 1, OFFSETS_PER_CHUNK):
                which = _chunk(part, start)
                if skipped and (records := self._dataset.count_rows(filter=which, use_threads=False)) <= skipped:
                    skipped -= records
                    continue
                yield from list(self._records(part, which))[skipped:]
                skipped = 0

    def _records(self, part: ArchivedPartition, which: pc.Expression) -> Iterator[tuple[Message, int]]:
        columns = {name: pc.field(name) for name in _COLUMNS} | {"arrival_ms": _milliseconds(pc.field("arrival_time"))}
        rows = self._dataset.to_table(columns=columns, filter=which, use_threads=False).sort_by("offset")
        for row in rows.to_pylist():
            # kafka-python sends neither a record without key and value nor a header without a value; landing makes no
            # difference between none and an empty one.
            value = b"" if row["value"] is None and row["key"] is None else row["value"]
            headers = [(header["key"], header["value"] or b"") for header in row["headers"] or ()]
            arrival = UNKNOWN_ARRIVAL_MS if row["arrival_ms"] is None else row["arrival_ms"]
            yield Message(part.topic, part.partition, row["key"], value, headers, arrival), row["offset"]


def check_new_log(settings: Settings, old: OldHome) -> None:
    """Refuse a log that contains records, lacks a partition, or would change or delete what is imported."""
    names = sorted({part.topic for part in old.partitions})
    if unknown := [name for name in names if name not in topics()]:
        raise LakehouseError(
            f"The old home has records of {', '.join(unknown)}, which this checkout does not declare.",
            "Add the declaration to config/topics, or use the code with which the old home was made.",
        )
    ends = end_offsets(settings, names)
    if filled := sorted({topic for (topic, _), end in ends.items() if end}):
        raise LakehouseError(
            f"{', '.join(filled)} is not empty: the records of an old home must be the first of their log.",
            "Import into a new home: export LAKEHOUSE_HOME=<a new folder>, then: lakehouse broker start",
        )
    if lacking := [part for part in old.partitions if (part.topic, part.partition) not in ends]:
        raise LakehouseError(
            f"The old log had {lacking[0].topic}/{lacking[0].partition}, and the new one has fewer partitions.",
            f"Add partitions to {lacking[0].topic}.",
        )
    for name in names:
        arrivals = [part.earliest_ms for part in old.partitions if part.topic == name and part.earliest_ms is not None]
        check_topic(settings, name, min(arrivals, default=int(datetime.now(UTC).timestamp() * 1000)))


def ensure_nothing_landed(settings: Settings) -> None:
    """Refuse a home that has landed records: its jobs may have closed windows that records to come belong to."""
    if ledger.entries(settings, [LANDING]):
        raise LakehouseError(
            f"{settings.home} has landed records already.",
            "Start the import again in another new home: export LAKEHOUSE_HOME=<a new folder>, then: "
            "lakehouse broker start",
        )


def send_home(settings: Settings, old: OldHome, position: Position, sent: Callable[[int], None]) -> None:
    """Send the records after the position; those that were set aside stay so, under their new offsets."""
    reasons = {each.origin: each.reason for each in active(old.settings)}
    origins: list[tuple[str, int, int]] = []

    def messages() -> Iterator[Message]:
        for message, offset in old.messages(position.sent):
            origins.append((message.topic, message.partition or 0, offset))
            yield message

    for confirmed in produce(settings, messages()):
        for origin, stored in zip(origins, confirmed, strict=True):
            if origin in reasons:
                set_aside(settings, [(stored.topic, stored.partition, stored.offset)], reasons[origin])
        origins.clear()
        failpoint("import: sent")
        position = replace(position, sent=position.sent + len(confirmed))
        write_position(settings, old.id, position)
        sent(len(confirmed))


def _import_id(table: deltalake.DeltaTable) -> str:
    """Identify an archive by its table and version: it may be moved, but not changed."""
    return hashlib.sha256(f"{table.metadata().id}/{table.version()}".encode()).hexdigest()[:16]


def _partitions(dataset: Any) -> list[ArchivedPartition]:
    """Count the records of each partition, in record batches: all may not fit in memory."""
    columns = {name: pc.field(name) for name in ("topic", "partition", "offset")}
    columns["arrival_ms"] = _milliseconds(pc.field("arrival_time"))
    counts = [_counted(pa.Table.from_batches([batch])) for batch in dataset.to_batches(columns, use_threads=False)]
    if not counts:
        return []
    counted = pa.concat_tables(counts)
    how = {"records": "sum", "first_offset": "min", "last_offset": "max", "earliest_ms": "min", "latest_ms": "max"}
    how["without_arrival"] = "sum"
    found = counted.group_by(["topic", "partition"]).aggregate(list(how.items()))
    rows = found.select(["topic", "partition", *(f"{name}_{function}" for name, function in how.items())])
    rows = rows.rename_columns(counted.column_names).sort_by([("topic", "ascending"), ("partition", "ascending")])
    return [ArchivedPartition(**row) for row in rows.to_pylist()]


def _counted(rows: pa.Table) -> pa.Table:
    wanted = [("offset", "count"), ("offset", "min"), ("offset", "max"), ("arrival_ms", "min"), ("arrival_ms", "max")]
    unknown = ("arrival_ms", "count", pc.CountOptions(mode="only_null"))
    found = rows.group_by(["topic", "partition"]).aggregate([*wanted, unknown])
    columns = ["topic", "partition", *(f"{name}_{function}" for name, function in wanted), "arrival_ms_count"]
    return found.select(columns).rename_columns([field.name for field in fields(ArchivedPartition)])


def _milliseconds(time: pc.Expression) -> pc.Expression:
    """Convert a time to milliseconds since 1970; an archived arrival time is never before 2000."""
    return pc.divide(time.cast(pa.int64()), 1000)


def _chunk(part: ArchivedPartition, start: int) -> pc.Expression:
    return (
        (pc.field("topic") == part.topic)
        & (pc.field("partition") == part.partition)
        & (pc.field("offset") >= start)
        & (pc.field("offset") < start + OFFSETS_PER_CHUNK)
    )
