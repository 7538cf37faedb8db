"""dbt sync: config/tables -> the serving models and the sources of dbt, as committed files.

A gold table's columns, key and finality are declared once, in config/tables. dbt cannot read them there, so the files
that repeat them are written by this module and committed; a test shows that they are up to date.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from config.declarations import Column, Table, tables, topics
from config.errors import LakehouseError
from config.features import features, of_feature
from config.settings import ROOT, nearest

WRITTEN_BY_SYNC = "Written by `lakehouse dbt sync`"
KAPPA = "Kappa answer, from the served generation"
LAMBDA = "Lambda answer, batch before the fence and stream from it on"
GENERATION = Column.model_validate(
    {"type": "int", "description": "the generation that the row belongs to", "from": "generation"}
)


@dataclass(frozen=True)
class Source:
    """A dbt source: a schema of the catalog whose tables are declared in a layer of config/tables."""

    name: str
    layer: str
    description: str
    freshness: str | None = None
    """The query that says when its tables were last written."""


SOURCES = {
    source.name: source
    for source in (
        Source(
            "silver",
            "silver",
            "Typed, valid and deduplicated events of the served generation.",
            "select max(recorded_at) from ops.ledger",
        ),
        Source(
            "gold_generations",
            "gold",
            "Every generation of the tables that the streaming jobs write; column generation tells them apart.",
            "select max(recorded_at) from ops.batches",
        ),
        Source("gold", "gold", "The served generation of the tables that the streaming jobs write."),
        Source("batch", "gold", "The published rows of the batch layer."),
        Source("ops", "ops", "What the jobs recorded about their own work."),
    )
}
LOADED_AT = {"ops.batches": "recorded_at"}


def sync(root: Path = ROOT) -> list[Path]:
    """Bring the written files up to date; return those that were written or removed."""
    changes = outdated(root)
    for file, text in changes.items():
        if text is None:
            file.unlink()
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    return list(changes)


def outdated(root: Path = ROOT) -> dict[Path, str | None]:
    """Return the files that differ from what config/tables declares, with their new text; None: to be removed."""
    models = root / "models"
    written = {models / name: text for name, text in render(root).items()}
    changed: dict[Path, str | None] = {
        file: text for file, text in written.items() if not file.exists() or file.read_text() != text
    }
    for file in sorted({*models.rglob("*.sql"), *models.rglob("*.yml")} - written.keys()):
        if WRITTEN_BY_SYNC in file.read_text().partition("\n")[0]:
            changed[file] = None
    return changed


def render(root: Path = ROOT) -> dict[str, str]:
    """Write every file that follows from config/tables, by its path under models/."""
    tables.cache_clear()  # a declaration may have been added by this process
    topics.cache_clear()
    declared = tables(root / "config" / "tables", root / "config" / "topics")
    serving = _serving(declared, has_batch=(root / "batch").is_dir())
    return serving | _sources(root, declared, serving)


def _serving(declared: Mapping[str, Table], *, has_batch: bool) -> dict[str, str]:
    """Write both answers of every gold table, and their comparison; without a batch layer only the Kappa answers."""
    found = {}
    gold = [table for table in declared.values() if table.layer == "gold"]
    comparable = [table for table in gold if table.final_at or table.changed_at] if has_batch else []
    for architecture, how, chosen in (("kappa", KAPPA, gold), ("lambda", LAMBDA, comparable)):
        for table in chosen:
            name = table.name.partition(".")[2]
            values = {"name": name, "table": table, "architecture": architecture, "how": how}
            found[f"serving/{architecture}_{name}.sql"] = _render(f"{architecture}.sql", values)
            found[f"serving/{architecture}_{name}.yml"] = _render("answer.yml", values)
    if comparable:
        for name in ("comparable_tables", "parity_rows"):
            found[f"serving/{name}.sql"] = _render(f"{name}.sql", {"tables": comparable})
    return found


def _sources(root: Path, declared: Mapping[str, Table], serving: Mapping[str, str]) -> dict[str, str]:
    """Write the sources that models read, each in a folder of its own under staging/."""
    models = root / "models"
    texts = {str(file.relative_to(models)): file.read_text() for file in models.rglob("*.sql")}
    texts = {name: text for name, text in texts.items() if WRITTEN_BY_SYNC not in text.partition("\n")[0]}
    read: dict[str, dict[str, Table]] = {}
    for name, text in sorted((texts | dict(serving)).items()):
        for source, table in re.findall(r"""source\(\s*["'](\w+)["'],\s*["'](\w+)["']\s*\)""", text):
            read.setdefault(source, {})[table] = _declared(declared, source, table, models / name)
    marks = _marks(root, declared)
    found = {}
    for source, read_tables in read.items():
        entries = [_entry(SOURCES[source], name, table, marks) for name, table in sorted(read_tables.items())]
        text = _render("sources.yml", {"source": SOURCES[source], "tables": entries})
        found[f"staging/{source}/_{source}__sources.yml"] = text
    return found


def _declared(declared: Mapping[str, Table], source: str, table: str, file: Path) -> Table:
    if source not in SOURCES:
        raise LakehouseError(f"{file}: there is no source '{source}': {nearest(source, list(SOURCES))}")
    name = f"{SOURCES[source].layer}.{table}"
    if name not in declared:
        raise LakehouseError(f"{file}: there is no table '{name}': {nearest(name, list(declared))}")
    return declared[name]


def _marks(root: Path, declared: Mapping[str, Table]) -> dict[str, str]:
    """Return the feature of each table that belongs to one; only the template's own repository marks them."""
    known = features(root)
    files = {f"config/tables/{name}.yaml": name for name in declared}
    if "origin" not in known:
        return {}
    return {files[file]: feature for feature in known for file in of_feature(feature, list(files), root)}


def _entry(source: Source, name: str, table: Table, marks: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": name,
        "description": table.description,
        "feature": marks.get(table.name),
        "loaded_at": LOADED_AT.get(table.name) if source.name == "ops" else None,
        "columns": table.columns | ({"generation": GENERATION} if source.name == "gold_generations" else {}),
    }


def _render(template: str, values: Mapping[str, Any]) -> str:
    return _templates().get_template(f"{template}.jinja").render(values)


def _templates() -> Environment:
    """Read the templates with delimiters that leave those of dbt alone."""
    found = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - SQL and YAML, no HTML
        block_start_string="<%",
        block_end_string="%>",
        variable_start_string="<<",
        variable_end_string=">>",
    )
    found.filters["tojson"] = partial(json.dumps, ensure_ascii=False)  # Jinja's own escapes quotes for HTML
    return found
