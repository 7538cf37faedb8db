"""Rules as data: expectations/rules/<table>.yaml -> frozen Rule values, every typo explained by file and line."""

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
    """What must hold for every row of a table; a null is no breach, a missing value is the schema's business."""

    name: str
    table: str
    column: str
    expression: str
    severity: str
    description: str

    @property
    def shown(self) -> list[str]:
        """Name the columns by which a row that breaks it is shown: its key, and what the rule is about."""
        return list(dict.fromkeys([*tables()[self.table].key, self.column, *columns_in(self.expression)]))

    @property
    def look(self) -> str:
        """Give the command that shows all rows that break it."""
        return asking(f"select {', '.join(self.shown)} from {self.table} where not ({self.expression})")  # noqa: S608

    def sql(self, columns: dict[str, str]) -> str:
        """Write the expression over other names for its columns, as the caller's frame has them."""
        return "".join(columns.get(word, word) if is_column else word for word, is_column in words(self.expression))


@cache
def rules(table: str, folder: Path = FOLDER) -> tuple[Rule, ...]:
    """Read what must hold for every row of a table; a table without a file has no rules."""
    found = entries(folder / f"{table}.yaml")
    return tuple(_rule(entry, tables()[table]) for entry in found if entry.form == "row")


@cache
def all_rules(folder: Path = FOLDER) -> tuple[Rule, ...]:
    """Read every rule file; one for a table that is not declared is an error."""
    found: list[Rule] = []
    for file in sorted(folder.glob("*.yaml")):
        if file.stem not in tables():
            raise LakehouseError(f"{file}: there is no table '{file.stem}': {nearest(file.stem, list(tables()))}")
        found += rules(file.stem, folder)
        table_rules(file.stem, folder)  # so that a typo in one of these is told here too
    return tuple(found)


def _rule(entry: Entry, table: Table) -> Rule:
    if entry["severity"] == "quarantine" and not table.topic:
        raise entry.wrong("severity", f"nothing is landed in {table.name}, so nothing is quarantined: fail or warn")
    columns = list(table.columns)
    for key, names in (("column", [entry["column"]]), ("expression", columns_in(entry["expression"]))):
        for name in names:
            entry.check(key, name, columns, f"{table.name} has no column")
    return Rule(table=table.name, **entry.values)
