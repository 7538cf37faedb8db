"""Skeletons -> files of the project: all of them, or none."""

import keyword
import re
from collections.abc import Mapping
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from config.declarations import Table, tables, topics
from config.errors import LakehouseError
from config.settings import ROOT, nearest
from operations.dbt.sync import sync

SKELETONS = Path(__file__).parent / "skeletons"
# Words that SQL or Python would take for something else.
TAKEN = {"all", "and", "as", "by", "case", "date", "from", "group", "join", "on", "order", "select", "table", "where"}


def topic(name: str, key: str | None = None, root: Path = ROOT) -> list[Path]:
    """Make a topic, the table it lands in, its rules and a test."""
    _name(name, list(topics()))
    key = key or f"{name.removesuffix('s')}_id"
    _name(key, ["event_id", "type", "event_time", "schema_version", "amount"])
    title = name.replace("_", " ").capitalize()
    return _write(
        "topic", root, {"name": name, "key": key, "title": title, "event": f"{name.removesuffix('s')}_happened"}
    )


def job(name: str, source: str, by: str | None = None, root: Path = ROOT) -> list[Path]:
    """Make a job that counts events of a silver table by hour, the gold table it writes, its rules and a test."""
    table = _source(source, "silver")
    _name(name, [each.partition(".")[2] for each in tables() if each.startswith("gold.")])
    by = by or (topics()[str(table.topic)].key if table.topic else table.key[0])
    if by not in table.columns:
        raise LakehouseError(f"{source} has no column '{by}': {nearest(str(by), list(table.columns))}")
    column = table.columns[str(by)]
    about = {"by": by, "by_type": column.type, "by_description": column.description}
    return [*_write("job", root, {"name": name, "source": source} | about), *sync(root)]


def model(name: str, source: str, root: Path = ROOT) -> list[Path]:
    """Make a dbt model of a silver or gold table and its YAML twin, and declare the table as a dbt source."""
    table = _source(source, "silver", "gold")
    _name(name, [file.stem for file in (root / "models").rglob("*.sql")])
    moments = [column for column, declared in table.columns.items() if declared.type == "timestamp"]
    if not moments:
        raise LakehouseError(f"{source} has no column of type timestamp to count its rows by.")
    layer, _, short = source.partition(".")
    moment = "event_time" if "event_time" in moments else moments[0]
    files = _write("model", root, {"name": name, "layer": layer, "table": short, "moment": moment})
    return [*files, *sync(root)]


def _name(name: str, known: list[str]) -> None:
    if not re.fullmatch(r"[a-z][a-z_]{1,38}[a-z]", name) or "__" in name:
        raise LakehouseError(f"'{name}' is no name: 3 to 40 small letters and single underscores, as in page_views.")
    if name in TAKEN or keyword.iskeyword(name):
        raise LakehouseError(f"'{name}' means something in SQL or Python. Choose another name.")
    if name in known:
        raise LakehouseError(f"'{name}' is there already. Choose another name.")


def _source(name: str, *layers: str) -> Table:
    known = [each for each, table in tables().items() if table.layer in layers]
    if name not in known:
        raise LakehouseError(f"There is no table '{name}' to read: {nearest(name, known)}", "lakehouse sql")
    return tables()[name]


def _write(kind: str, root: Path, values: Mapping[str, object]) -> list[Path]:
    """Render every file of a skeleton, refuse if one exists, then write them."""
    jinja = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)  # noqa: S701 - no HTML
    files = {}
    for skeleton in sorted((SKELETONS / kind).rglob("*.jinja")):
        name = str(skeleton.relative_to(SKELETONS / kind)).removesuffix(".jinja").replace("NAME", str(values["name"]))
        files[root / name] = jinja.from_string(skeleton.read_text()).render(values)
    if there := [str(file.relative_to(root)) for file in files if file.exists()]:
        raise LakehouseError(f"{', '.join(there)}: there already. Nothing was written.")
    written = []
    try:
        for file, text in files.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            written.append(file)
            file.write_text(text)
    except OSError as error:
        for file in written:
            file.unlink(missing_ok=True)
        raise LakehouseError(f"{error.filename}: {error.strerror}. Nothing was written.") from None
    return list(files)
