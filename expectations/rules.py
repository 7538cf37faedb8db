"""Rules as data: expectations/rules/<table>.yaml -> frozen Rule values, every typo explained by file and line."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from config.declarations import Table, tables
from config.errors import LakehouseError
from config.settings import ROOT, nearest

FOLDER = ROOT / "expectations" / "rules"
SEVERITIES = ["quarantine", "fail", "warn"]
KEYS = ["name", "column", "expression", "severity", "says"]
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

    def sql(self, columns: dict[str, str]) -> str:
        """Write the expression over other names for its columns, as the caller's frame has them."""
        return "".join(columns.get(word, word) if is_column else word for word, is_column in _words(self.expression))


@cache
def rules(table: str, folder: Path = FOLDER) -> tuple[Rule, ...]:
    """Read the rules of a table; a table without a file has none."""
    file = folder / f"{table}.yaml"
    if not file.exists():
        return ()
    return tuple(_rule(file, node, tables()[table]) for node in _entries(file))


@cache
def all_rules(folder: Path = FOLDER) -> tuple[Rule, ...]:
    """Read every rule file; one for a table that is not declared is an error."""
    found: list[Rule] = []
    for file in sorted(folder.glob("*.yaml")):
        if file.stem not in tables():
            raise LakehouseError(f"{file}: there is no table '{file.stem}': {nearest(file.stem, list(tables()))}")
        found += rules(file.stem, folder)
    return tuple(found)


def _entries(file: Path) -> list[yaml.MappingNode]:
    try:
        root = yaml.compose(file.read_text(), yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise LakehouseError(f"{file} is not YAML: {error}") from None
    if not isinstance(root, yaml.SequenceNode) or not all(isinstance(n, yaml.MappingNode) for n in root.value):
        raise LakehouseError(f"{file}: it must be a list of rules, each with {', '.join(KEYS)}.")
    return list(root.value)


def _rule(file: Path, node: yaml.MappingNode, table: Table) -> Rule:
    values: dict[str, Any] = {}
    for key, value in node.value:
        if key.value not in KEYS:
            raise _wrong(file, key, f"unknown key '{key.value}': {nearest(key.value, KEYS)}")
        if not isinstance(value, yaml.ScalarNode):
            raise _wrong(file, value, f"'{key.value}' must be a text")
        values[key.value] = value
    for key in KEYS:
        if key not in values:
            raise _wrong(file, node, f"the rule has no '{key}'")
    severity, column, expression = values["severity"], values["column"], values["expression"]
    if severity.value not in SEVERITIES:
        raise _wrong(file, severity, f"severity '{severity.value}': {nearest(severity.value, SEVERITIES)}")
    columns = list(table.columns)
    for node_, names in ((column, [column.value]), (expression, _columns(expression.value))):
        for name in names:
            if name not in columns:
                raise _wrong(file, node_, f"{table.name} has no column '{name}': {nearest(name, columns)}")
    return Rule(table=table.name, **{key: values[key].value for key in KEYS})


def _columns(expression: str) -> list[str]:
    return [word for word, is_column in _words(expression) if is_column]


def _words(expression: str) -> list[tuple[str, bool]]:
    """Split an expression into its tokens, each with whether it names a column."""
    found = []
    for match in _TOKEN.finditer(expression):
        word = match[0]
        calls = expression[match.end() :].lstrip().startswith("(")
        is_column = bool(_NAME.fullmatch(word)) and word.lower() not in _SQL and not calls
        found.append((word, is_column))
    return found


def _wrong(file: Path, node: yaml.Node, what: str) -> LakehouseError:
    return LakehouseError(f"{file}, line {node.start_mark.line + 1}: {what}", f"Mend {file}.")
