"""A publication of the batch layer, as the oracle works it out: rows, fence and the commit that names them."""

from datetime import UTC, date, datetime
from typing import Any

import deltalake
import pyarrow as pa
from oracle import Oracle, from_rows
from oracle.answers import tables as known

from batch import fence, publications
from batch.segments import WHOLE, path
from config.declarations import Table, tables
from config.settings import Settings
from lake.tables import arrow_schema

GOLD = [table for table in tables().values() if table.layer == "gold" and table.name in known()]


def publish(settings: Settings, records: list[tuple[Any, ...]]) -> None:
    """Publish the batch answer to some records; an earlier publication and an unpublished run must not be read."""
    earlier, served, unpublished = "20260101T000000000000", "20260102T000000000000", "20260103T000000000000"
    half = records[: len(records) // 2]
    for run, read in ((earlier, half), (served, records), (unpublished, half)):
        fence.record_fence(settings, run, _fence(settings, read))
        written = _write(settings, run, read)
        if run != unpublished:
            publications.publish(settings, run, written)


def _write(settings: Settings, run: str, records: list[tuple[Any, ...]]) -> dict[str, dict[date, str]]:
    """Write the rows of a run; return the segments that it has written, by table."""
    oracle = Oracle(from_rows([(*record[:5], record[6]) for record in records]))
    found = {}
    for table in GOLD:
        rows = oracle.table(table.name, late_counts=False).select(list(table.stored)).cast(arrow_schema(table))
        segments = _segments(table, rows)
        rows = rows.append_column("segment", segments).append_column("run", pa.array([run] * len(rows), pa.string()))
        deltalake.write_deltalake(str(path(settings, table.name)), rows, mode="append", partition_by=["segment", "run"])
        found[table.name] = dict.fromkeys(segments.to_pylist(), run)
    return found


def _segments(table: Table, rows: pa.Table) -> pa.Array:
    if table.partitioned_by:
        return rows[table.partitioned_by[0]].combine_chunks()
    return pa.array([WHOLE] * len(rows), pa.date32())


def _fence(settings: Settings, records: list[tuple[Any, ...]]) -> fence.Fence:
    offsets: dict[tuple[str, int], int] = {}
    for topic, partition, offset, *_ in records:
        offsets[topic, partition] = max(offset + 1, offsets.get((topic, partition), 0))
    latest: datetime = max(record[6] for record in records).astimezone(UTC)
    return fence.Fence(offsets, latest - fence._disorder(settings))
