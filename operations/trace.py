"""Trace: where an event is in every layer, and why it is there or not."""

from dataclasses import dataclass
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc

from config.declarations import Table, landed_tables, table_named
from config.settings import Settings
from expectations.rules import all_rules

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
            for row in _rows(settings, table, here, ["event_id", "event_time", "type"]):
                story = f"{row['type']} {row['event_id']}, happened {row['event_time']:%Y-%m-%d %H:%M:%S.%f}"
                steps.append(Step(table.name, True, story))
    for row in _rows(settings, table_named("silver.quarantine"), mine, ["rules", "duplicate_of"]):
        steps.append(Step("silver.quarantine", True, "; ".join(_says(topic, rule) for rule in row["rules"])))
    for row in _rows(settings, table_named("silver.late"), mine, ["late_by_ms", "duplicate_of"]):
        steps.append(Step("silver.late", True, f"{row['late_by_ms'] / 60_000:.1f} minutes late{_copy_of(topic, row)}"))
    for row in _rows(settings, table_named("silver.duplicates"), mine, ["duplicate_of"]):
        steps.append(Step("silver.duplicates", True, _copy_of(topic, row).lstrip(", ")))
    return steps


def _rows(settings: Settings, table: Table, which: pc.Expression, columns: list[str]) -> list[dict[str, Any]]:
    path = str(table.path(settings.warehouse))
    if not deltalake.DeltaTable.is_deltatable(path):
        return []
    # One thread: with more, the process now and then aborts at its end.
    found: pa.Table = (
        deltalake.DeltaTable(path).to_pyarrow_dataset().to_table(columns=columns, filter=which, use_threads=False)
    )
    return list(found.to_pylist())


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
