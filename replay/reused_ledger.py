"""The ledger of a landing by reference: what was written, counted per partition, against what came in.

One commit wrote each table, so a partition has one entry, or one on each side of a loss. The number of records that
came in is that of the served ledger; every outcome is counted in the tables of the replay. If both do not agree, the
served tables are not what their own ledger says, and nothing is built on them.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from config.declarations import landed_tables, table_named
from config.errors import LakehouseError
from lake import ledger, losses
from lake.batch import Batch
from lake.ledger import LANDING, TERMS, Ends, Entry
from lake.tables import scan_arrow
from streaming.landing.write import SIDE_TABLES

KEY = ["topic", "partition", "from_offset"]
COUNTS = [*KEY, "rows", "first", "last"]


def counted(batch: Batch, served: int, ends: Ends) -> Entry:
    """Count the rows that a batch has written to every table, per range of offsets.

    served: the generation that it copied, up to the ends.
    """
    landed = [
        row
        for row in ledger.entries(batch.settings, [LANDING])
        if row["generation"] == served and row["to_offset"] <= ends.get((row["topic"], row["partition"]), 0)
    ]
    came = ranges(landed, losses.recorded(batch.settings, LANDING))
    outcomes = {ledger.offset_range(row): dict(row) for row in came}
    for row in _occurrences(batch, came):
        entry = outcomes.get((row["topic"], row["partition"], row["from_offset"]))
        if entry is None:
            raise _unequal(f"{row['topic']}/{row['partition']}: {row['rows']:,} rows are counted by no ledger entry")
        entry[row["term"]] = row["rows_sum"]
        if row["term"] == "silver":
            entry |= {"min_event_time": row["first_min"], "max_event_time": row["last_max"]}
    place = {"job": LANDING, "generation": batch.generation, "epoch": batch.epoch, "batch": batch.id}
    for entry in outcomes.values():
        if (found := sum(entry[term] for term in TERMS)) != entry["input"]:
            span = f"offsets {entry['from_offset']:,} to {entry['to_offset'] - 1:,}"
            where = f"{entry['topic']}/{entry['partition']}, {span}"
            raise _unequal(f"{where}: the ledger counts {entry['input']:,} records, the tables have {found:,}")
    return [place | entry for entry in outcomes.values()]


def ranges(entries: Entry, lost: Entry) -> Entry:
    """Add up the entries of each partition: one commit wrote them all. A loss between two entries separates them.

    The outcomes are left at 0; they are counted.
    """
    found: Entry = []
    for row in sorted(entries, key=ledger.offset_range):
        if found and _follows(row, found[-1], lost):
            last = found[-1]
            last["to_offset"] = row["to_offset"]
            last["input"] += row["input"]
            last["bytes"] += row["bytes"]
            last["min_arrival_time"] = _among(min, last["min_arrival_time"], row.get("min_arrival_time"))
            last["max_arrival_time"] = _among(max, last["max_arrival_time"], row.get("max_arrival_time"))
        else:
            names = ("topic", "partition", "from_offset", "to_offset", "input", "bytes")
            arrivals = {name: row.get(name) for name in ("min_arrival_time", "max_arrival_time")}
            times = dict.fromkeys(("min_event_time", "max_event_time"))
            found.append({name: row[name] for name in names} | arrivals | dict.fromkeys(TERMS, 0) | times)
    return found


def _follows(row: dict[str, Any], last: dict[str, Any], lost: Entry) -> bool:
    """Return whether an entry goes on where another ends; offsets between them are transaction markers, or lost."""
    place = (last["topic"], last["partition"])
    between = range(last["to_offset"], row["from_offset"])
    return place == (row["topic"], row["partition"]) and not any(
        each["from_offset"] in between for each in lost if place == (each["topic"], each["partition"])
    )


def _among(choose: Callable[..., datetime], *times: datetime | None) -> datetime | None:
    return choose((time for time in times if time is not None), default=None)


def _occurrences(batch: Batch, came: Entry) -> list[dict[str, Any]]:
    """Count the rows of each outcome per range of offsets, with the span of their event times."""
    found = []
    for name, term in [*((table.name, "silver") for table in landed_tables()), *SIDE_TABLES.items()]:
        topic = table_named(name).topic
        columns = {column: pc.field(column) for column in ("partition", "offset", "event_time" if topic else "topic")}
        parts = [_per_range(rows, came, topic) for rows in scan_arrow(batch.location(name), columns)]
        if parts:
            sums = pa.concat_tables(parts).group_by(KEY, use_threads=False)
            sums = sums.aggregate([("rows", "sum"), ("first", "min"), ("last", "max")])
            found += [row | {"term": term} for row in sums.to_pylist()]
    return found


def _per_range(rows: pa.RecordBatch, came: Entry, topic: str | None) -> pa.Table:
    """Count rows per range of offsets; those in no range have no `from_offset`."""
    table = pa.Table.from_batches([rows])
    if topic:
        table = table.append_column("topic", pa.repeat(pa.scalar(topic, pa.string()), len(rows)))
    else:  # quarantined records may have no event time
        table = table.append_column("event_time", pa.nulls(len(rows), pa.timestamp("us", "UTC")))
    starts = pa.nulls(len(rows), pa.int64())
    for row in (row for row in came if topic in (None, row["topic"])):
        same = pc.and_(pc.equal(table["topic"], row["topic"]), pc.equal(table["partition"], row["partition"]))
        after, before = (
            pc.greater_equal(table["offset"], row["from_offset"]),
            pc.less(table["offset"], row["to_offset"]),
        )
        starts = pc.if_else(pc.and_(same, pc.and_(after, before)), row["from_offset"], starts)
    groups = table.append_column("from_offset", starts).group_by(KEY, use_threads=False)
    counts = groups.aggregate([([], "count_all"), ("event_time", "min"), ("event_time", "max")])
    return counts.select([*KEY, "count_all", "event_time_min", "event_time_max"]).rename_columns(COUNTS)


def _unequal(what: str) -> LakehouseError:
    return LakehouseError(f"The served tables are not what their ledger says. {what}.", "lakehouse check ledger")
