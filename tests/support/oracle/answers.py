"""Answers: a log -> the expected tables of silver and gold after the whole log is processed."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import duckdb
import pyarrow as pa

from oracle.outcomes import COPIES, OUTCOMES, outcome_views
from oracle.reading import MACROS, looked_over, typed
from oracle.topics import FORMS

Strategy = Literal["leave", "count", "merge"]
_SQL = Path(__file__).parent / "sql"


class Oracle:
    """Computes every expected table from a log: a DuckDB connection with `records`, as the readers return it."""

    def __init__(self, log: duckdb.DuckDBPyConnection) -> None:
        self._log = log
        log.execute(MACROS)
        for topic in FORMS:
            log.execute(typed(topic))
            log.execute(looked_over(topic))
        log.execute(COPIES)
        for topic in FORMS:
            log.execute(outcome_views(topic))
        log.execute(OUTCOMES)
        for view in ("versions", "enriched"):
            log.execute(f"create temp view {view} as {_query(view)}")
        # For the answers of jobs that read a silver table which no topic lands in.
        for table in (name for name in tables() if name.startswith("silver.")):
            log.execute(f"create temp view if not exists {table.replace('.', '_')} as {_query(table)}")

    def table(
        self,
        name: str,
        *,
        late_counts: bool = True,
        strategy: Strategy = "leave",
        closed_until: datetime | None = None,
    ) -> pa.Table:
        """Compute a table; its rows are in no particular order.

        late_counts: events past their allowance are late, as for the stream; without it nothing is, as for batch and
        replay. strategy: late rows are left out of windows, counted next to the totals, or merged into them.
        closed_until: how far event time has come; without it, all of time has passed.
        """
        self._set(late_counts, strategy, closed_until)
        return _in_utc(self._log.sql(_query(name)).to_arrow_table())

    def classified(self, *, late_counts: bool = True) -> pa.Table:
        """Return each record's outcome: quarantined, late, duplicate or silver."""
        self._set(late_counts, "leave", None)
        query = 'select topic, "partition", "offset", outcome from outcomes'
        return self._log.sql(query).to_arrow_table()

    def _set(self, late_counts: bool, strategy: Strategy, closed_until: datetime | None) -> None:
        until = closed_until and closed_until.astimezone(UTC).replace(tzinfo=None)
        self._log.execute("set variable late_counts = $1", [late_counts])
        self._log.execute("set variable strategy = $1", [strategy])
        self._log.execute("set variable closed_until = $1::timestamp", [until])


def tables() -> list[str]:
    """List the tables that the oracle can compute."""
    return sorted({*(file.stem for file in _SQL.glob("*.*.sql")), *(f"silver.{topic}" for topic in FORMS)})


def waits(name: str) -> bool:
    """Return whether rows of a table are written only after event time has passed them."""
    return "closed_until" in _query(name)


def _query(name: str) -> str:
    file = _SQL / f"{name}.sql"
    topic = name.removeprefix("silver.")
    if not file.exists() and topic in FORMS:
        return _as_landed(topic)
    if not file.exists():
        raise LookupError(f"The oracle does not know {name}; it knows {', '.join(tables())}.")
    return file.read_text()


def _as_landed(topic: str) -> str:
    """Select the fields of a topic's events; without content_hash, as the oracle has a hash of its own."""
    fields = ", ".join(name for name, field in FORMS[topic].fields.items() if field.path is None)
    return f"""
select {fields}, arrival_time, "partition", "offset", event_time::date as event_date
from silver_{topic}
"""


def _in_utc(table: pa.Table) -> pa.Table:
    """Set the time zone of all timestamps to UTC."""
    zoned = pa.timestamp("us", "UTC")
    kinds = [zoned if pa.types.is_timestamp(column.type) else column.type for column in table.schema]
    return table.cast(pa.schema(list(zip(table.column_names, kinds, strict=True))))
