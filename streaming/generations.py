"""Generations: each rebuild of silver and gold is a set of tables of its own; a pointer says which are served.

The pointer is ops.generations: a switch is one commit that names the generation of every table, so all readers see it
at once. Until the first switch, everything is in its first generation.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

import pyarrow as pa

from config.declarations import Table, table_named, tables
from config.settings import Settings
from streaming.tables import append_once, arrow_schema, rows_at

TABLE = "ops.generations"
FIRST = 1
Numbers = Mapping[str, int]


def live(settings: Settings) -> dict[str, int]:
    """Say which generation of each table is served; read once, it pins them all to one switch."""
    rows = rows_at(table_named(TABLE).path(settings.warehouse)).to_pylist()
    last = max((row["switch"] for row in rows), default=0)
    served = {row["table_name"]: row["generation"] for row in rows if row["switch"] == last}
    return {table.name: served.get(table.name, FIRST) for table in generational()}


def switch(settings: Settings, numbers: Numbers, what: str, note: str = "") -> None:
    """Serve other generations of some tables, in one commit."""
    path = table_named(TABLE).path(settings.warehouse)
    number = max((row["switch"] for row in rows_at(path).to_pylist()), default=0) + 1
    served = live(settings) | dict(numbers)
    now = datetime.now(UTC)
    common = {"switch": number, "what": what, "note": note, "recorded_at": now}
    rows = [{**common, "table_name": name, "generation": generation} for name, generation in served.items()]
    append_once(path, pa.Table.from_pylist(rows, arrow_schema(table_named(TABLE))), "switch", number)


def built(settings: Settings, table: Table) -> list[int]:
    """List the generations of a table that there are, served or not."""
    folders = table.path(settings.warehouse).parent.glob("g[0-9]*")
    return sorted(int(folder.name[1:]) for folder in folders if (folder / "_delta_log").is_dir())


def generational() -> list[Table]:
    """List the tables that a replay builds anew."""
    return [table for table in tables().values() if table.layer in ("silver", "gold")]
