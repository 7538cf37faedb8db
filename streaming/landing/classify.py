"""Classification: the records of a micro-batch -> each record's outcome: silver, quarantined, late or duplicates.

Two records are the same event if topic, event id and time bucket agree; a bucket is one deduplication horizon of event
time (an hour by default). This is an equivalence relation, so the result does not depend on how the log was cut into
micro-batches. It also bounds the lookup: a batch reads only its own time buckets from silver, never the whole history
(docs/decisions/0005).
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from config.declarations import landed_tables
from lake.batch import Batch
from lake.tables import read_arrow

INPUT_COLUMNS = (
    *("topic", "partition", "offset", "event_id", "event_time", "arrival_time"),
    *("late_by_ms", "rules", "content_hash", "dedup_hash", "size"),
)
SILVER, QUARANTINED, LATE, DUPLICATES = "silver", "quarantined", "late", "duplicates"
REUSED_ID = "event_id_reused"
MAX_RANGES = 50
LATE_TABLE = "silver.late"
DUPLICATE_OF = pa.struct([("partition", pa.int32()), ("offset", pa.int64())])
COPY_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("event_id", pa.string()),
        ("event_time", pa.timestamp("us", "UTC")),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("content_hash", pa.int64()),
    ]
)
Identity = tuple[str, str, int]
"""Topic, event id, time bucket."""


class Copy(NamedTuple):
    """One copy of an event; copies sort landed ones first, then by partition and offset."""

    new: bool
    partition: int
    offset: int
    content_hash: int

    @property
    def origin(self) -> tuple[int, int]:
        """Return the partition and offset, which identify the record within its topic."""
        return self.partition, self.offset


def classify(records: pa.Table, batch: Batch) -> pa.Table:
    """Add each record's `outcome`: quarantined, late, duplicates or silver, the first of these that applies."""
    horizon = batch.settings.streaming.dedup_horizon_minutes * 60
    broken = pc.greater(pc.list_value_length(records["rules"]), 0)
    late = pc.and_(pc.is_valid(records["late_by_ms"]), not batch.is_replay)
    outcome = pc.if_else(broken, QUARANTINED, pc.if_else(late, LATE, SILVER))
    on_time = pc.equal(outcome, SILVER).to_numpy()
    duplicates = list(_duplicates(records, pc.invert(broken), horizon, batch))
    reused = [row for row, _, reuses_id in duplicates if reuses_id]
    repeated = {row: DUPLICATES for row, _, _ in duplicates if on_time[row]}
    firsts = {row: {"partition": first.partition, "offset": first.offset} for row, first, _ in duplicates}
    return (
        records.drop_columns(["rules"])
        .append_column("outcome", _replace_values(outcome, repeated | dict.fromkeys(reused, QUARANTINED)))
        .append_column("rules", _replace_values(records["rules"], {row: [REUSED_ID] for row in reused}))
        .append_column("duplicate_of", _replace_values(pa.nulls(len(records), DUPLICATE_OF), firsts))
    )


def _replace_values(column: pa.Array | pa.ChunkedArray, changes: Mapping[int, Any]) -> pa.ChunkedArray:
    """Replace a few values of a column by row number, without converting the other values to Python objects."""
    changed = pa.array(changes.values(), column.type)
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    indices = np.arange(len(column))
    indices[list(changes)] = len(column) + np.arange(len(changes))
    return pa.chunked_array([*chunks, changed], column.type).take(pa.array(indices))


def _duplicates(
    records: pa.Table, valid: pa.ChunkedArray, horizon: int, batch: Batch
) -> Iterable[tuple[int, Copy, bool]]:
    """Find the valid records that are not the first copy: row number, first copy, whether the content differs."""
    records = records.append_column("row", pa.array(np.arange(len(records)))).filter(valid)
    landed = _landed_copies(records, horizon, batch)
    # Almost every event is unique: look only at records whose hash occurs twice or whose id has landed before.
    hashes, counts = np.unique(records["dedup_hash"].to_numpy(), return_counts=True)
    repeated = pc.is_in(records["dedup_hash"], value_set=pa.array(hashes[counts > 1]))
    known = pc.is_in(records["event_id"], value_set=landed["event_id"].combine_chunks())
    new_copies = list(_copies(records.filter(pc.or_(repeated, known)), horizon, new=True))
    firsts: dict[Identity, Copy] = {}
    for identity, copy, _ in [*_copies(landed, horizon, new=False), *new_copies]:
        firsts[identity] = min(copy, firsts.get(identity, copy))
    for identity, copy, row in new_copies:
        first = firsts[identity]
        if copy.origin != first.origin:
            yield row, first, copy.content_hash != first.content_hash


def _copies(records: pa.Table, horizon: int, *, new: bool) -> Iterable[tuple[Identity, Copy, int]]:
    time_buckets = _time_buckets(records["event_time"], horizon)
    for record, time_bucket in zip(records.drop_columns(["event_time"]).to_pylist(), time_buckets, strict=True):
        copy = Copy(new, record["partition"], record["offset"], record["content_hash"])
        yield (record["topic"], record["event_id"], int(time_bucket)), copy, record.get("row", -1)


def _time_buckets(times: pa.ChunkedArray, horizon: int) -> Any:
    """Return the number of the horizon-long bucket that contains each event time."""
    return np.floor_divide(times.cast(pa.int64()).to_numpy(), horizon * 1_000_000)


def _landed_copies(records: pa.Table, horizon: int, batch: Batch) -> pa.Table:
    """Read, from silver and silver.late, the landed events that share an id and a time bucket with these records."""
    landed = [COPY_SCHEMA.empty_table()]
    for table in landed_tables():
        of_topic = records.filter(pc.equal(records["topic"], table.topic))
        if not len(of_topic):
            continue
        ids = of_topic["event_id"].combine_chunks()
        same = _in_buckets(_time_buckets(of_topic["event_time"], horizon), horizon) & pc.field("event_id").isin(ids)
        same_late = same & (pc.field("topic") == table.topic) & pc.field("duplicate_of").is_null()
        for name, condition in ((table.name, same), (LATE_TABLE, same_late)):
            columns = [column for column in COPY_SCHEMA.names if column != "topic"]
            copies = read_arrow(batch.location(name), condition, columns)
            topic = pa.array([table.topic] * len(copies), pa.string())
            landed.append(copies.append_column("topic", topic).select(COPY_SCHEMA.names).cast(COPY_SCHEMA))
    return pa.concat_tables(landed)


def _in_buckets(time_buckets: Any, horizon: int) -> pc.Expression:
    """Express time buckets as ranges of event time, so that Delta can skip files."""
    event_time, condition = pc.field("event_time"), pc.scalar(False)
    for first, end in _ranges(np.unique(time_buckets).tolist()):
        since, before = (pa.scalar(bucket * horizon * 1_000_000, pa.timestamp("us", "UTC")) for bucket in (first, end))
        condition = condition | ((event_time >= since) & (event_time < before))
    return condition


def _ranges(time_buckets: Iterable[int]) -> list[tuple[int, int]]:
    """Merge adjacent buckets; above MAX_RANGES return one range, as the exact match on identity comes later."""
    ranges: list[tuple[int, int]] = []
    for bucket in time_buckets:
        if ranges and ranges[-1][1] == bucket:
            ranges[-1] = (ranges[-1][0], bucket + 1)
        else:
            ranges.append((bucket, bucket + 1))
    return ranges if len(ranges) <= MAX_RANGES else [(ranges[0][0], ranges[-1][1])]
