"""What a project declares, read from its files: a change builds on it."""

from dataclasses import dataclass
from pathlib import Path

from config.declarations import Table, Topic, tables, topics
from config.errors import LakehouseError
from config.settings import nearest


@dataclass(frozen=True)
class Declared:
    """The topics and tables of a project, by name."""

    topics: dict[str, Topic]
    tables: dict[str, Table]

    def table(self, name: str, *layers: str) -> Table:
        """Find a table of some layers, or name the one that was meant."""
        known = [each for each, table in self.tables.items() if table.layer in layers]
        if name not in known:
            raise LakehouseError(f"There is no table '{name}' to read: {nearest(name, known)}", "lakehouse sql")
        return self.tables[name]

    def events(self, name: str) -> Table:
        """Find a silver table of events that a windowed job can read: one with a watermark."""
        table = self.table(name, "silver")
        topic = self.topics.get(str(table.topic or table.lateness_of))
        if topic is None or topic.lateness.allowance is None or "event_time" not in table.columns:
            usable = [each for each in self.tables if each.startswith("silver.") and self._has_watermark(each)]
            raise LakehouseError(
                f"{name} has no watermark: its topic sets no limit to lateness, so a window over it would never end."
                f" These have one: {', '.join(usable)}."
            )
        return table

    def column(self, table: Table, name: str, *types: str) -> str:
        """Check that a table has a column, of one of some types if any are given; return its type."""
        if name not in table.columns:
            raise LakehouseError(f"{table.name} has no column '{name}': {nearest(name, list(table.columns))}")
        found = table.columns[name].type
        if types and found not in types:
            raise LakehouseError(f"{table.name}.{name} is of type {found}; it should be of type {' or '.join(types)}.")
        return found

    def gold(self) -> list[str]:
        """Name the gold tables, without their layer."""
        return [name.partition(".")[2] for name in self.tables if name.startswith("gold.")]

    def _has_watermark(self, name: str) -> bool:
        table = self.tables[name]
        topic = self.topics.get(str(table.topic or table.lateness_of))
        return topic is not None and topic.lateness.allowance is not None and "event_time" in table.columns


def oracle_view(table: Table) -> str:
    """Name the view under which the tests' oracle has a silver table: by its topic where it lands from one."""
    return f"silver_{table.topic or table.name.partition('.')[2]}"


def declared(root: Path) -> Declared:
    """Read the declarations as they are now: a change before this one may have added some."""
    topics.cache_clear()
    tables.cache_clear()
    folder = root / "config"
    return Declared(topics(folder / "topics"), tables(folder / "tables", folder / "topics"))
