"""Trace: where an event is in every layer, and why it is there or not."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc

from config.declarations import Table, landed_tables, table_named
from config.settings import Settings
from expectations.rules import all_rules
from streaming.job import in_stages, jobs

Origin = tuple[str, int, int]


@dataclass(frozen=True)
class Step:
    """One place where a record was looked for, and what was found."""

    place: str
    found: bool
    story: str


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
    bronze = _rows(settings, table_named("bronze.events"), mine, ["arrival_time", "value"])
    steps = [
        Step("bronze.events", True, f"arrived {bronze[0]['arrival_time']:%Y-%m-%d %H:%M:%S.%f}, {_size(bronze[0])}")
        if bronze
        else Step("bronze.events", False, "not landed yet, or no such record: lakehouse stream status")
    ]
    for table in landed_tables():
        if table.topic == topic:
            for row in _rows(settings, table, here, list(table.stored)):
                story = f"{row['type']} {row['event_id']}, happened {row['event_time']:%Y-%m-%d %H:%M:%S.%f}"
                steps += [Step(table.name, True, story), *_after(settings, table.name, row)]
    for row in _rows(settings, table_named("silver.quarantine"), mine, ["rules", "duplicate_of"]):
        steps.append(Step("silver.quarantine", True, "; ".join(_says(topic, rule) for rule in row["rules"])))
    for row in _rows(settings, table_named("silver.late"), mine, ["late_by_ms", "duplicate_of"]):
        steps.append(Step("silver.late", True, f"{row['late_by_ms'] / 60_000:.1f} minutes late{_copy_of(topic, row)}"))
    for row in _rows(settings, table_named("silver.duplicates"), mine, ["duplicate_of"]):
        steps.append(Step("silver.duplicates", True, _copy_of(topic, row).lstrip(", ")))
    return steps


def _after(settings: Settings, table: str, event: dict[str, Any]) -> list[Step]:
    """Follow an event from its silver table into every row it counts in."""
    steps = []
    for job in (job for stage in in_stages(list(jobs().values())) for job in stage if table in job.reads):
        (written,) = job.writes
        which = job.counts(event)
        declared = table_named(written)
        for row in _rows(settings, declared, which, list(declared.stored)) if which is not None else ():
            steps.append(Step(written, True, _row(row, event)))
            if declared.follows:
                steps += _after(settings, written, row)
    return steps


def _row(row: dict[str, Any], event: dict[str, Any]) -> str:
    """Say what a row tells that the event does not."""
    new = {name: value for name, value in row.items() if value is not None and event.get(name) != value}
    told = {name: f"{value:%H:%M:%S}" if isinstance(value, datetime) else value for name, value in new.items()}
    return ", ".join(f"{name} {value}" for name, value in told.items() if name not in ("day", "event_date"))


def _rows(settings: Settings, table: Table, which: pc.Expression, columns: list[str]) -> list[dict[str, Any]]:
    path = str(table.path(settings.warehouse))
    if not deltalake.DeltaTable.is_deltatable(path):
        return []
    dataset = deltalake.DeltaTable(path).to_pyarrow_dataset()
    # One thread: with more, the process now and then aborts at its end.
    if table.layer != "gold":
        return list(dataset.to_table(columns=columns, filter=which, use_threads=False).to_pylist())
    # A MERGE by deltalake writes texts as views, which pyarrow's scanner cannot compare: they are filtered once read.
    found = (pa.Table.from_batches([rows]).filter(which) for rows in dataset.to_batches(columns, use_threads=False))
    return [row for rows in found for row in rows.to_pylist()]


def _size(row: dict[str, Any]) -> str:
    return f"{len(row['value']):,} bytes" if row["value"] is not None else "without a value"


def _copy_of(topic: str, row: dict[str, Any]) -> str:
    first = row["duplicate_of"]
    return f", a copy of {topic}/{first['partition']}/{first['offset']}" if first else ""


def _says(topic: str, rule: str) -> str:
    tables = {table.name for table in landed_tables() if table.topic == topic}
    for each in all_rules():
        if each.name == rule and each.table in tables:
            return f"{rule}: {each.says}"
    return rule
