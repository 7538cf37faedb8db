"""Generations: a replay builds silver and gold as new tables; the pointer says which generation is served.

The pointer is ops.generations. A switch is one commit that names the generation of every table, so all readers see it
at once. Until the first switch, every table is in its first generation.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, Protocol

import pyarrow as pa

from config.declarations import Table, table_named, tables
from config.settings import Settings
from lake.location import storage, table_location
from lake.tables import append_once, arrow_schema, read_arrow

TABLE = "ops.generations"
FIRST = 1
DROPPING = "_dropping"
GenerationByTable = Mapping[str, int]
Source = Literal["kafka", "bronze", "silver"]


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
    """Where landing reads records: Kafka, the archive in bronze, or its own served tables in silver."""

    starting: str = "earliest"
    """Where in Kafka a replay starts, in the format of Spark's Kafka source."""

    def of_job(self, job: Writer) -> int:
        """Return the generation that a job writes."""
        return next(self.generation_by_table[name] for name in job.writes if name in self.generation_by_table)

    def of_table(self, name: str) -> int:
        """Return the generation of a table; a table without generations is in its first."""
        return self.generation_by_table.get(name, FIRST)

    def inputs_of(self, generation: int) -> dict[str, int]:
        """Return, for a job that writes a generation, the tables of other generations."""
        return {name: number for name, number in self.generation_by_table.items() if number != generation}

    def lock(self, job: Writer) -> str:
        """Return the lock name of a job's writer: one process for the served tables, one for each replay."""
        return job.name if self.replay is None else f"{job.name}.g{self.replay}"


def live(settings: Settings) -> dict[str, int]:
    """Return the served generation of each table, all as of one switch."""
    return _after(settings, None)


def before(settings: Settings) -> dict[str, int] | None:
    """Return the generations that were served before the last switch, or None if there was no switch."""
    last = max(_switches(settings), default=0)
    return _after(settings, last - 1) if last else None


def _switches(settings: Settings) -> list[int]:
    return [row["switch"] for row in read_arrow(table_location(settings, TABLE)).to_pylist()]


def _after(settings: Settings, switch: int | None) -> dict[str, int]:
    """Return the generation of each table after a switch, by default the last one."""
    rows = read_arrow(table_location(settings, TABLE)).to_pylist()
    number = max((row["switch"] for row in rows), default=0) if switch is None else switch
    served = {row["table_name"]: row["generation"] for row in rows if row["switch"] == number}
    return {table.name: served.get(table.name, FIRST) for table in replayable_tables()}


def served_since(settings: Settings) -> dict[int, datetime]:
    """Return when a table of each generation was first served; the first generation always was."""
    found = {FIRST: datetime.min.replace(tzinfo=UTC)}
    rows = read_arrow(table_location(settings, TABLE)).to_pylist()
    for row in sorted(rows, key=lambda row: row["switch"]):
        found.setdefault(row["generation"], row["recorded_at"])
    return found


def serving(settings: Settings) -> TableGenerations:
    """Return the currently served generation of every table."""
    return TableGenerations(live(settings))


def switch(settings: Settings, numbers: GenerationByTable, what: str, note: str = "") -> None:
    """Serve other generations of some tables, in one commit; do nothing if they are already served."""
    path = table_location(settings, TABLE)
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
    """Return whether any table has a second generation."""
    return any(built(settings, table) not in ([], [FIRST]) for table in replayable_tables())


def is_served(settings: Settings, job: Writer, generation: int) -> bool:
    """Return whether the tables that a job writes in a generation are the served ones."""
    return serving(settings).of_job(job) == generation


def built(settings: Settings, table: Table) -> list[int]:
    """List the existing generations of a table, served or not, except one that is being dropped."""
    folders = table_location(settings, table.name).parent.children("g[0-9]*")
    there = [folder for folder in folders if folder.is_table() and not (folder / DROPPING).exists()]
    return sorted(int(folder.name[1:]) for folder in there)


def unused(settings: Settings) -> int:
    """Return the next number for a generation: nothing has had it, not even a replay that was killed early."""
    parents = [table_location(settings, table.name).parent for table in replayable_tables()]
    parents += [storage(settings) / kind for kind in ("checkpoints", "replays", "resets")]
    numbers = [int(folder.name[1:]) for parent in parents for folder in parent.children("g[0-9]*")]
    return max(numbers, default=FIRST) + 1


def remove(settings: Settings, names: Iterable[str], generation: int, refresh: Callable[[], None]) -> int:
    """Remove the tables, checkpoints and ledger of a generation that is not served; return the bytes freed.

    refresh: updates the readers' views before the tables are removed, so that no view names them.
    """
    own = f"g{generation}"
    paths = [table_location(settings, name, generation) for name in names]
    for path in paths:
        if path.exists():
            (path / DROPPING).write("")
    refresh()
    paths += [storage(settings) / "checkpoints" / own]
    paths += [table_location(settings, name) / own for name in ("ops.ledger", "ops.batches")]
    freed = sum(path.size() for path in paths)
    for path in paths:
        path.remove()
    return freed


def replayable_tables() -> list[Table]:
    """List the tables that a replay rebuilds."""
    return [table for table in tables().values() if table.layer in ("silver", "gold")]
