"""Generations: each rebuild of silver and gold is a set of tables of its own; a pointer says which are served.

The pointer is ops.generations: a switch is one commit that names the generation of every table, so all readers see it
at once. Until the first switch, everything is in its first generation.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, Protocol

import pyarrow as pa

from config.declarations import Table, table_named, tables
from config.settings import Settings
from lake.tables import append_once, arrow_schema, read_arrow, table_exists

TABLE = "ops.generations"
FIRST = 1
DROPPING = "_dropping"
GenerationByTable = Mapping[str, int]
Source = Literal["kafka", "bronze"]


class Writer(Protocol):
    """What a generation must know of a job; jobs are defined on a higher floor."""

    @property
    def name(self) -> str:
        """Return the job's name."""

    @property
    def writes(self) -> tuple[str, ...]:
        """Return the tables that the job writes."""


@dataclass(frozen=True)
class TableGenerations:
    """The generation of each table that a run reads and writes: the served ones, or those that a replay builds."""

    generation_by_table: GenerationByTable
    replay: int | None = None
    """The generation that is being built; None for the served tables."""

    source: Source = "kafka"
    """Where landing reads records: Kafka, or the archive in bronze."""

    starting: str = "earliest"
    """Where in Kafka a replay starts, in the format of Spark's Kafka source."""

    def of_job(self, job: Writer) -> int:
        """Return the generation that a job writes."""
        return next(self.generation_by_table[name] for name in job.writes if name in self.generation_by_table)

    def of_table(self, name: str) -> int:
        """Return the generation of a table; a table without generations is in its first."""
        return self.generation_by_table.get(name, FIRST)

    def lock(self, job: Writer) -> str:
        """Return the lock name of a job's writer: one process for the served tables, one for each replay."""
        return job.name if self.replay is None else f"{job.name}.g{self.replay}"


def live(settings: Settings) -> dict[str, int]:
    """Say which generation of each table is served; read once, it pins them all to one switch."""
    return _after(settings, None)


def before(settings: Settings) -> dict[str, int] | None:
    """Say which were served before the last switch; none if there was no switch."""
    last = max(_switches(settings), default=0)
    return _after(settings, last - 1) if last else None


def _switches(settings: Settings) -> list[int]:
    return [row["switch"] for row in read_arrow(table_named(TABLE).path(settings.warehouse)).to_pylist()]


def _after(settings: Settings, switch: int | None) -> dict[str, int]:
    """Say which generation of each table was served after a switch, or after the last."""
    rows = read_arrow(table_named(TABLE).path(settings.warehouse)).to_pylist()
    number = max((row["switch"] for row in rows), default=0) if switch is None else switch
    served = {row["table_name"]: row["generation"] for row in rows if row["switch"] == number}
    return {table.name: served.get(table.name, FIRST) for table in replayable_tables()}


def served_since(settings: Settings) -> dict[int, datetime]:
    """Say of each generation when any table of it was first served; the first always was."""
    found = {FIRST: datetime.min.replace(tzinfo=UTC)}
    rows = read_arrow(table_named(TABLE).path(settings.warehouse)).to_pylist()
    for row in sorted(rows, key=lambda row: row["switch"]):
        found.setdefault(row["generation"], row["recorded_at"])
    return found


def serving(settings: Settings) -> TableGenerations:
    """Mean the tables that are served now."""
    return TableGenerations(live(settings))


def switch(settings: Settings, numbers: GenerationByTable, what: str, note: str = "") -> None:
    """Serve other generations of some tables, in one commit; none if they are served already."""
    path = table_named(TABLE).path(settings.warehouse)
    number = max(_switches(settings), default=0) + 1
    present = live(settings)
    served = present | dict(numbers)
    if served == present:
        return
    now = datetime.now(UTC)
    common = {"switch": number, "what": what, "note": note, "recorded_at": now}
    rows = [{**common, "table_name": name, "generation": generation} for name, generation in served.items()]
    append_once(path, pa.Table.from_pylist(rows, arrow_schema(table_named(TABLE))), "switch", number)


def has_replays(settings: Settings) -> bool:
    """Tell whether there ever was a second generation of anything."""
    return any(built(settings, table) not in ([], [FIRST]) for table in replayable_tables())


def is_served(settings: Settings, job: Writer, generation: int) -> bool:
    """Tell whether what a job writes in a generation is what is served now."""
    return serving(settings).of_job(job) == generation


def built(settings: Settings, table: Table) -> list[int]:
    """List the generations of a table that there are, served or not; one that is about to be removed is not."""
    folders = table.path(settings.warehouse).parent.glob("g[0-9]*")
    there = [folder for folder in folders if table_exists(folder) and not (folder / DROPPING).exists()]
    return sorted(int(folder.name[1:]) for folder in there)


def replayable_tables() -> list[Table]:
    """List the tables that a replay builds anew."""
    return [table for table in tables().values() if table.layer in ("silver", "gold")]
