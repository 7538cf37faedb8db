"""Rules as data: expectations/rules/<table>.yaml -> frozen Rule values, every typo explained by file and line."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from config.declarations import Table, tables
from config.errors import LakehouseError
from config.settings import nearest
from expectations.rule_files import FOLDER, Entry, entries

# Words of an expression that are SQL, not columns.
_SQL = {
    *(
        "and",
        "or",
        "not",
        "is",
        "null",
        "true",
        "false",
        "in",
        "between",
        "like",
        "rlike",
        "case",
        "when",
        "then",
        "else",
    ),
    *("end", "timestamp", "date", "interval", "minute", "minutes", "hour", "hours", "day", "days", "second", "seconds"),
    *("as", "cast", "string", "int", "bigint", "double", "boolean"),
}
_TOKEN = re.compile(r"'(?:[^']|'')*'|[A-Za-z_][A-Za-z0-9_]*(?=\s*\()|[A-Za-z_][A-Za-z0-9_]*|.", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Rule:
    """What must hold for every row of a table; a null is no breach, a missing value is the schema's business."""

    name: str
    table: str
    column: str
    expression: str
    severity: str
    says: str

    @property
    def look(self) -> str:
        """Give the command that shows all rows that break it."""
        shown = dict.fromkeys([*tables()[self.table].key, self.column, *columns_in(self.expression)])
        return asking(f"select {', '.join(shown)} from {self.table} where not ({self.expression})")  # noqa: S608

    def sql(self, columns: dict[str, str]) -> str:
        """Write the expression over other names for its columns, as the caller's frame has them."""
        return "".join(columns.get(word, word) if is_column else word for word, is_column in _words(self.expression))


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
    return tuple(found)


def _rule(entry: Entry, table: Table) -> Rule:
    if entry["severity"] == "quarantine" and not table.topic:
        raise entry.wrong("severity", f"nothing is landed in {table.name}, so nothing is quarantined: fail or warn")
    columns = list(table.columns)
    for key, names in (("column", [entry["column"]]), ("expression", columns_in(entry["expression"]))):
        for name in names:
            entry.check(key, name, columns, f"{table.name} has no column")
    return Rule(table=table.name, **entry.values)


def asking(query: str) -> str:
    """Write a query as a command to copy into a shell."""
    escaped = re.sub(r'([\\"$`])', r"\\\1", query)
    return f'lakehouse sql "{escaped}"'


def columns_in(expression: str) -> list[str]:
    """Name the columns of an expression, each once, in their order."""
    return list(dict.fromkeys(word for word, is_column in _words(expression) if is_column))


def _words(expression: str) -> list[tuple[str, bool]]:
    """Split an expression into its tokens, each with whether it names a column."""
    found = []
    for match in _TOKEN.finditer(expression):
        word = match[0]
        calls = expression[match.end() :].lstrip().startswith("(")
        is_column = bool(_NAME.fullmatch(word)) and word.lower() not in _SQL and not calls
        found.append((word, is_column))
    return found
