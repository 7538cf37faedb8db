"""Verdicts: where each record of a micro-batch goes, told from the records together and from what landed before.

An event is known by its topic, its id and the hour of its event time (the horizon, configurable). That is an
equivalence, so the answer is the same however the log was cut into batches; and it bounds the search: only the
stretches that a batch touches are looked up in silver, never the history (docs/decisions/0005).
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
MOST_RANGES = 50
LATE_TABLE = "silver.late"
DUPLICATE_OF = pa.struct([("partition", pa.int32()), ("offset", pa.int64())])
COPIES = pa.schema(
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


class Copy(NamedTuple):
    """A copy of an event; of several, the first is what landed before, then what comes first in the log."""

    new: bool
    partition: int
    offset: int
    content_hash: int

    @property
    def origin(self) -> tuple[int, int]:
        """Tell it from every other record of its topic."""
        return self.partition, self.offset


def classify(rows: pa.Table, batch: Batch) -> pa.Table:
    """Give each record its verdict: quarantined, late, duplicate or silver, the first of these that fits."""
    horizon = batch.settings.streaming.dedup_horizon_minutes * 60
    broken = pc.greater(pc.list_value_length(rows["rules"]), 0)
    late = pc.and_(pc.is_valid(rows["late_by_ms"]), not batch.is_replay)
    verdict = pc.if_else(broken, QUARANTINED, pc.if_else(late, LATE, SILVER))
    on_time = pc.equal(verdict, SILVER).to_numpy()
    copies = list(_duplicates(rows, pc.invert(broken), horizon, batch))
    reused = [number for number, _, reused in copies if reused]
    again = {number: DUPLICATES for number, _, _ in copies if on_time[number]}
    firsts = {number: {"partition": first.partition, "offset": first.offset} for number, first, _ in copies}
    return (
        rows.drop_columns(["rules"])
        .append_column("verdict", _with(verdict, again | dict.fromkeys(reused, QUARANTINED)))
        .append_column("rules", _with(rows["rules"], {number: [REUSED_ID] for number in reused}))
        .append_column("duplicate_of", _with(pa.nulls(len(rows), DUPLICATE_OF), firsts))
    )


def _with(column: pa.Array | pa.ChunkedArray, changes: Mapping[int, Any]) -> pa.ChunkedArray:
    """Put other values in a few places of a column; of the rest, however many, Python sees nothing."""
    changed = pa.array(changes.values(), column.type)
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    places = np.arange(len(column))
    places[list(changes)] = len(column) + np.arange(len(changes))
    return pa.chunked_array([*chunks, changed], column.type).take(pa.array(places))


def _duplicates(rows: pa.Table, valid: pa.ChunkedArray, horizon: int, batch: Batch) -> Iterable[tuple[int, Copy, bool]]:
    """Find the valid records that are not the first copy of their event, and whether they reuse its id."""
    rows = rows.append_column("number", pa.array(np.arange(len(rows)))).filter(valid)
    before = _landed(rows, horizon, batch)
    # Nearly every event is alone: only those whose mark is there twice, or whose id landed before, are looked at.
    marks, counts = np.unique(rows["dedup_hash"].to_numpy(), return_counts=True)
    repeated = pc.is_in(rows["dedup_hash"], value_set=pa.array(marks[counts > 1]))
    known = pc.is_in(rows["event_id"], value_set=before["event_id"].combine_chunks())
    suspects = rows.filter(pc.or_(repeated, known))
    firsts: dict[Identity, Copy] = {}
    here = list(_identified(suspects, horizon, new=True))
    for identity, copy, _ in [*_identified(before, horizon, new=False), *here]:
        firsts[identity] = min(copy, firsts.get(identity, copy))
    for identity, copy, number in here:
        first = firsts[identity]
        if copy.origin != first.origin:
            yield number, first, copy.content_hash != first.content_hash


def _identified(rows: pa.Table, horizon: int, *, new: bool) -> Iterable[tuple[Identity, Copy, int]]:
    stretches = _time_buckets(rows["event_time"], horizon)
    for row, stretch in zip(rows.drop_columns(["event_time"]).to_pylist(), stretches, strict=True):
        copy = Copy(new, row["partition"], row["offset"], row["content_hash"])
        yield (row["topic"], row["event_id"], int(stretch)), copy, row.get("number", -1)


def _time_buckets(times: pa.ChunkedArray, horizon: int) -> Any:
    """Give the number of the horizon-long stretch that each event time lies in."""
    return np.floor_divide(times.cast(pa.int64()).to_numpy(), horizon * 1_000_000)


def _landed(rows: pa.Table, horizon: int, batch: Batch) -> pa.Table:
    """Read what landed before, in silver or as late, with an id of these and in the stretches of time they touch."""
    found = [COPIES.empty_table()]
    for table in landed_tables():
        of_topic = rows.filter(pc.equal(rows["topic"], table.topic))
        if not len(of_topic):
            continue
        ids = of_topic["event_id"].combine_chunks()
        which = _within(_time_buckets(of_topic["event_time"], horizon), horizon) & pc.field("event_id").isin(ids)
        late = which & (pc.field("topic") == table.topic) & pc.field("duplicate_of").is_null()
        for name, where in ((table.name, which), (LATE_TABLE, late)):
            columns = [column for column in COPIES.names if column != "topic"]
            copies = read_arrow(batch.location(name), where, columns)
            topic = pa.array([table.topic] * len(copies), pa.string())
            found.append(copies.append_column("topic", topic).select(COPIES.names).cast(COPIES))
    return pa.concat_tables(found)


def _within(stretches: Any, horizon: int) -> pc.Expression:
    """Write stretches of event time as a condition by which files can be skipped."""
    time, found = pc.field("event_time"), pc.scalar(False)
    for low, high in _ranges(np.unique(stretches).tolist()):
        since, until = (pa.scalar(end * horizon * 1_000_000, pa.timestamp("us", "UTC")) for end in (low, high))
        found = found | ((time >= since) & (time < until))
    return found


def _ranges(stretches: Iterable[int]) -> list[tuple[int, int]]:
    """Join neighbouring stretches; of very many, take all between the first and the last, and match exactly later."""
    ranges: list[tuple[int, int]] = []
    for stretch in stretches:
        if ranges and ranges[-1][1] == stretch:
            ranges[-1] = (ranges[-1][0], stretch + 1)
        else:
            ranges.append((stretch, stretch + 1))
    return ranges if len(ranges) <= MOST_RANGES else [(ranges[0][0], ranges[-1][1])]
