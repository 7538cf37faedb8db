"""Rules as data: expectations/rules/<table>.yaml -> frozen Rule values; an error names file and line."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from config.declarations import Table, tables
from config.errors import LakehouseError
from config.rule_expressions import asking, columns_in, words
from config.rule_files import FOLDER, Entry, entries
from config.settings import nearest
from config.table_rules import table_rules


@dataclass(frozen=True)
class Rule:
    """A condition on every row of a table. A null result does not break it: the schema checks for missing values."""

    name: str
    table: str
    column: str
    expression: str
    severity: str
    description: str

    @property
    def shown(self) -> list[str]:
        """List the columns to show of a row that breaks the rule: the key and the rule's columns."""
        return list(dict.fromkeys([*tables()[self.table].key, self.column, *columns_in(self.expression)]))

    @property
    def look(self) -> str:
        """Return the command that shows all rows that break the rule."""
        return asking(f"select {', '.join(self.shown)} from {self.table} where not ({self.expression})")  # noqa: S608

    def sql(self, columns: dict[str, str]) -> str:
        """Return the expression with its columns renamed to those of the caller's DataFrame."""
        return "".join(columns.get(word, word) if is_column else word for word, is_column in words(self.expression))


@cache
def rules(table: str, folder: Path = FOLDER) -> tuple[Rule, ...]:
    """Read the row rules of a table; a table without a file has none."""
    found = entries(folder / f"{table}.yaml")
    return tuple(_rule(entry, tables()[table]) for entry in found if entry.form == "row")


@cache
def all_rules(folder: Path = FOLDER) -> tuple[Rule, ...]:
    """Read every rule file; a file for an undeclared table is an error."""
    found: list[Rule] = []
    for file in sorted(folder.glob("*.yaml")):
        if file.stem not in tables():
            raise LakehouseError(f"{file}: there is no table '{file.stem}': {nearest(file.stem, list(tables()))}")
        found += rules(file.stem, folder)
        table_rules(file.stem, folder)  # to report a mistake in one of these too
    return tuple(found)


def _rule(entry: Entry, table: Table) -> Rule:
    if entry["severity"] == "quarantine" and not table.topic:
        raise entry.wrong("severity", f"landing does not write {table.name}, so it cannot quarantine: use fail or warn")
    columns = list(table.columns)
    for key, names in (("column", [entry["column"]]), ("expression", columns_in(entry["expression"]))):
        for name in names:
            entry.check(key, name, columns, f"{table.name} has no column")
    return Rule(table=table.name, **entry.values)
