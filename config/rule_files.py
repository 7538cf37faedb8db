"""Rule files: expectations/rules/<table>.yaml -> validated entries; an error names file and line."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from config.errors import LakehouseError
from config.settings import ROOT, nearest

FOLDER = ROOT / "expectations" / "rules"
COMMON = ("name", "severity", "description")
# By form, the keys in addition to the common ones. A key that only one form has identifies the form.
FORMS = {
    "row": ("column", "expression"),
    "reference": ("column", "refers_to"),
    "freshness": ("newest", "behind", "at_most"),
    "bounds": ("measure", "between"),
    "gap": ("hours_of", "busy", "closed"),
}
OPTIONAL = {"closed": "false"}
"""Keys that a rule may leave out, with their values then."""

SEVERITIES = {"row": ["quarantine", "fail", "warn"]}


@dataclass(frozen=True)
class Entry:
    """One rule of a file: its form, its values as strings, and the line of each."""

    file: Path
    form: str
    values: dict[str, str]
    lines: dict[str, int]

    def __getitem__(self, key: str) -> str:
        return self.values[key]

    def wrong(self, key: str, what: str) -> LakehouseError:
        """Return the error for one of its values, with file and line."""
        return _wrong(self.file, self.lines[key], what)

    def check(self, key: str, name: str, allowed: list[str], what: str) -> None:
        """Raise an error if a name is not allowed, with the nearest name that is."""
        if name not in allowed:
            raise self.wrong(key, f"{what} '{name}': {nearest(name, allowed)}")


@cache
def entries(file: Path) -> tuple[Entry, ...]:
    """Read the rules of a file; a missing file has none."""
    if not file.exists():
        return ()
    try:
        root = yaml.compose(file.read_text(), yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise LakehouseError(f"{file} is not YAML: {error}") from None
    if not isinstance(root, yaml.SequenceNode) or not all(isinstance(n, yaml.MappingNode) for n in root.value):
        keys = ", ".join(("name", *FORMS["row"], "severity", "description"))
        raise LakehouseError(f"{file}: it must be a list of rules, each with the keys {keys}.")
    return tuple(_entry(file, node) for node in root.value)


def _entry(file: Path, node: yaml.MappingNode) -> Entry:
    present = {key.value for key, _ in node.value}
    form = next((form for form, keys in FORMS.items() if present & _own(form, keys)), "row")
    keys = [*COMMON, *FORMS[form]]
    values, lines = {}, {}
    for key, value in node.value:
        if key.value not in keys:
            known = keys if key.value in _all_keys() else _all_keys()
            raise _wrong(file, _line(key), f"unknown key '{key.value}': {nearest(key.value, known)}")
        if not isinstance(value, yaml.ScalarNode):
            raise _wrong(file, _line(value), f"'{key.value}' must be a string")
        values[key.value], lines[key.value] = value.value, _line(value)
    for key in keys:
        if key not in values:
            if key not in OPTIONAL:
                raise _wrong(file, _line(node), f"the rule has no '{key}'")
            values[key], lines[key] = OPTIONAL[key], _line(node)
    entry = Entry(file, form, values, lines)
    entry.check("severity", entry["severity"], SEVERITIES.get(form, ["fail", "warn"]), "severity")
    return entry


def _own(form: str, keys: tuple[str, ...]) -> set[str]:
    return set(keys) - {key for other, theirs in FORMS.items() if other != form for key in theirs}


def _all_keys() -> list[str]:
    return [*COMMON, *dict.fromkeys(key for keys in FORMS.values() for key in keys)]


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _wrong(file: Path, line: int, what: str) -> LakehouseError:
    return LakehouseError(f"{file}, line {line}: {what}", f"Correct {file}.")
