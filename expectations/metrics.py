"""Check results -> ops.metrics; each caller has its own folder, as each process writes only its own tables."""

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from config.declarations import table_named
from config.settings import Settings
from lake.location import table_location
from lake.tables import append_next, arrow_schema

if TYPE_CHECKING:
    from expectations.gate import Finding

TABLE = "ops.metrics"


def record(settings: Settings, name: str, now: datetime, findings: "Iterable[Finding]") -> None:
    """Append the result of each rule."""
    rows = [
        {
            "audit": name,
            "checked_at": now,
            "table_name": each.table,
            "rule": each.rule,
            "severity": each.severity,
            "passed": not each.rows,
            "rows": each.rows,
        }
        for each in findings
    ]
    asked_by = name.split()[0]
    path = table_location(settings, TABLE) / asked_by
    append_next(path, pa.Table.from_pylist(rows, arrow_schema(table_named(TABLE))), asked_by)
