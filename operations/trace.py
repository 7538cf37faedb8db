"""Trace: where an event is in every layer, and why it is there or not."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc

from config.declarations import Table, landed_tables, table_named
from config.discovery import provided
from config.settings import Settings
from expectations.quarantine.rule_messages import rule_message
from lake.literals import literal
from lake.location import Location
from lake.tables import read_arrow
from lake.views import served_locations
from streaming.job import Job, in_stages, jobs

Origin = tuple[str, int, int]
Stored = dict[str, list[tuple[Location, str]]]
"""By table, its locations, each with the SQL condition for its served rows r."""


@dataclass(frozen=True)
class Step:
    """One table in which a record was looked for, and what was found."""

    table: str
    found: bool
    detail: str


def origins(settings: Settings, event_id: str) -> list[Origin]:
    """Find every record that carries an event id, in the order of the log."""
    found: set[Origin] = set()
    for table in landed_tables():
        rows = _rows(settings, table, pc.field("event_id") == event_id, ["partition", "offset"])
        found |= {(str(table.topic), row["partition"], row["offset"]) for row in rows}
    for name in ("silver.quarantine", "silver.late", "silver.duplicates"):
        rows = _rows(settings, table_named(name), pc.field("event_id") == event_id, ["topic", "partition", "offset"])
        found |= {(row["topic"], row["partition"], row["offset"]) for row in rows}
    return sorted(found)


def trace(settings: Settings, origin: Origin) -> list[Step]:
    """Follow one record of the log through every table."""
    topic, partition, offset = origin
    here = (pc.field("partition") == partition) & (pc.field("offset") == offset)
    mine = here & (pc.field("topic") == topic)
    bronze = _rows(settings, table_named("bronze.events"), mine, ["arrival_time", "timestamp_ms", "value"])
    steps = [
        Step("bronze.events", True, f"{_arrived(bronze[0])}, {_size(bronze[0])}")
        if bronze
        else Step("bronze.events", False, "not landed yet, or no such record: lakehouse stream status")
    ]
    stream: Stored = {job.writes[0]: _stream(settings, job) for job in jobs().values() if job.reads}
    for table in landed_tables():
        if table.topic == topic:
            for row in _rows(settings, table, here, list(table.stored)):
                detail = f"{row['type']} {row['event_id']}, happened {row['event_time']:%Y-%m-%d %H:%M:%S.%f}"
                steps += [Step(table.name, True, detail), *_after(settings, table.name, row, stream)]
    for row in _rows(settings, table_named("silver.quarantine"), mine, ["rules", "duplicate_of"]):
        reasons = [f"{rule}: {rule_message(topic, rule)}" for rule in row["rules"]]
        steps.append(Step("silver.quarantine", True, "; ".join(reasons)))
    for row in _rows(settings, table_named("silver.late"), mine, ["late_by_ms", "duplicate_of"]):
        steps.append(Step("silver.late", True, f"{row['late_by_ms'] / 60_000:.1f} minutes late{_copy_of(topic, row)}"))
    for row in _rows(settings, table_named("silver.duplicates"), mine, ["duplicate_of"]):
        steps.append(Step("silver.duplicates", True, _copy_of(topic, row).lstrip(", ")))
    for layer in provided("tracing"):
        steps += _in_layer(settings, origin, layer.LAYER, layer.served_rows(settings))
    return steps


def _stream(settings: Settings, job: Job) -> list[tuple[Location, str]]:
    return [(path, "true") for path in served_locations(settings, table_named(job.writes[0]))]


def _after(settings: Settings, table: str, event: dict[str, Any], stored: Stored, layer: str = "") -> list[Step]:
    """Follow an event from its silver table into every row it counts in."""
    steps = []
    for job in (job for stage in in_stages(list(jobs().values())) for job in stage if table in job.reads):
        (written,) = job.writes
        declared = table_named(written)
        for row in _counting(declared, job, event, stored.get(written, [])):
            steps.append(Step(_shown_name(written, layer), True, _row(row, event)))
            if declared.lateness_of:
                steps += _after(settings, written, row, stored, layer)
    return steps


def _in_layer(settings: Settings, origin: Origin, layer: str, served: Mapping[str, tuple[Location, str]]) -> list[Step]:
    """Look a record up in another layer's tables, such as those of the batch layer, which count late events too."""
    stored: Stored = {name: [rows] for name, rows in served.items()}
    topic, partition, offset = origin
    steps = []
    for table in landed_tables():
        here = f'r."partition" = {partition} and r."offset" = {offset}'
        for row in _asked(table, here, stored.get(table.name, [])) if table.topic == topic else ():
            steps.append(Step(_shown_name(table.name, layer), True, f"{row['type']} {row['event_id']}"))
            steps += _after(settings, table.name, row, stored, layer)
    return steps


def _shown_name(name: str, layer: str) -> str:
    return f"{layer}.{name.partition('.')[2]}" if layer else name


def _row(row: dict[str, Any], event: dict[str, Any]) -> str:
    """Format the columns whose values differ from the event's."""
    new = {name: value for name, value in row.items() if value is not None and event.get(name) != value}
    shown = {name: f"{value:%H:%M:%S}" if isinstance(value, datetime) else value for name, value in new.items()}
    return ", ".join(f"{name} {value}" for name, value in shown.items() if name not in ("day", "event_date"))


def _counting(
    table: Table, job: Job, event: dict[str, Any], stored: list[tuple[Location, str]]
) -> list[dict[str, Any]]:
    """Find the rows of a job's table that an event counts in."""
    fields = sorted(set(re.findall(r"\be\.(\w+)", job.provenance.row_contains_event)))
    values = ", ".join(f"{literal(event.get(name))} as {name}" for name in fields)
    return _asked(table, job.provenance.row_contains_event, stored, f"with e as (select {values})", ", e")


def _asked(
    table: Table, which: str, stored: list[tuple[Location, str]], before: str = "", beside: str = ""
) -> list[dict[str, Any]]:
    """Ask for rows r of a table in SQL, without Spark, wherever it is."""
    found = []
    for path, shown in stored:
        query = f"{before} select r.* from r{beside} where ({which}) and ({shown})"  # noqa: S608
        rows = deltalake.QueryBuilder().register("r", path.table()).execute(query)
        found += pa.table(rows).select(list(table.stored)).to_pylist()
    return found


def _rows(settings: Settings, table: Table, which: pc.Expression, columns: list[str]) -> list[dict[str, Any]]:
    return [row for path in served_locations(settings, table) for row in read_arrow(path, which, columns).to_pylist()]


def _arrived(row: dict[str, Any]) -> str:
    if row["arrival_time"] is None:
        return f"arrived at an unknown time, with the timestamp {row['timestamp_ms']} ms"
    return f"arrived {row['arrival_time']:%Y-%m-%d %H:%M:%S.%f}"


def _size(row: dict[str, Any]) -> str:
    return f"{len(row['value']):,} bytes" if row["value"] is not None else "without a value"


def _copy_of(topic: str, row: dict[str, Any]) -> str:
    first = row["duplicate_of"]
    return f", a copy of {topic}/{first['partition']}/{first['offset']}" if first else ""
