"""Views: the SQL behind every name that readers can query: the served generation, and what is derived from it."""

import importlib
import importlib.util
from pathlib import Path

import deltalake

from config.declarations import Table, table_named, tables
from config.settings import Settings
from lake import generations
from lake.tables import table_exists

FEATURES = ("batch.views",)
"""Modules of higher floors that add views; each is optional and discovered by its file."""


def views(settings: Settings) -> dict[str, str]:
    """Return the query behind every name: those of the tables, and those that features add."""
    found = table_views(settings)
    for module in FEATURES:
        # One after the other: find_spec cannot even look for a module in a package that does not exist.
        if importlib.util.find_spec(module.partition(".")[0]) and importlib.util.find_spec(module):
            found |= importlib.import_module(module).views(settings)
    return found


def described(name: str) -> str:
    """Describe a view; a view of the batch layer or of the merge has the description of its table."""
    layer, _, table = name.partition(".")
    of = {each.name.partition(".")[2]: each.description for each in tables().values() if each.layer != "ops"}
    if name in tables():
        return tables()[name].description
    how = {"batch": "As the batch layer has it", "merged": "Batch before the fence, stream after it"}
    return f"{how.get(layer, layer)}: {of.get(table, '')}"


def table_views(settings: Settings) -> dict[str, str]:
    """Write a query for each table that there is, by its name.

    Where a table has several generations its query asks the pointer itself, so a view made of it follows every switch.
    """
    found = {}
    for table in tables().values():
        built = generations.built(settings, table) if table in generations.replayable_tables() else []
        paths = served(settings, table)
        if len(built) > 1:
            parts = _served(settings, table, built)
        elif len(paths) > 1:
            parts = [_columns(table, path, _writer(table, path)) for path in paths]
        else:
            parts = [f"select * from {delta(path)}" for path in paths]  # noqa: S608
        if parts:
            valid_to = f", {table.valid_to} as valid_to" if table.valid_to else ""
            found[table.name] = f"select *{valid_to} from ({' union all '.join(parts)})"  # noqa: S608
    return found


def served(settings: Settings, table: Table) -> list[Path]:
    """Find the Delta table that is served under a name now, or the folders that its several writers keep of it."""
    if table in generations.replayable_tables():
        paths = [table.path(settings.warehouse, generations.live(settings)[table.name])]
    else:
        path = table.path(settings.warehouse)
        paths = [path, *sorted(path.glob("*")), *sorted(path.glob("g[0-9]*/*"))]
    return [path for path in paths if table_exists(path)]


def delta(path: Path) -> str:
    """Name a Delta table in SQL by where it is."""
    return "delta.`" + str(path).replace("`", "``") + "`"


def _served(settings: Settings, table: Table, built: list[int]) -> list[str]:
    """Take, of all generations, the one that the pointer names when it is read."""
    pointer = delta(table_named(generations.TABLE).path(settings.warehouse))
    number = (
        f"(select coalesce(max_by(generation, switch), {generations.FIRST}) from {pointer}"  # noqa: S608
        f" where table_name = '{table.name}')"
    )
    paths = {generation: table.path(settings.warehouse, generation) for generation in built}
    return [f"{_columns(table, path)} where {generation} = {number}" for generation, path in paths.items()]


def _columns(table: Table, path: Path, known: dict[str, str] | None = None) -> str:
    """Take a table's columns from one of its parts, which may be of before one was declared; known: some, in SQL."""
    there = {field.name: f"`{field.name}`" for field in deltalake.DeltaTable(str(path)).schema().fields} | (known or {})
    columns = ", ".join(
        f"{there.get(name, f'cast(null as {column.type})')} as `{name}`" for name, column in table.stored.items()
    )
    return f"select {columns} from {delta(path)}"  # noqa: S608


def _writer(table: Table, path: Path) -> dict[str, str]:
    """Say whose rows a folder g<generation>/<job> has, outright: who asks for some jobs then opens no other folder."""
    generation, job = path.parts[-2:]
    if not {"generation", "job"} <= set(table.stored) or not generation[1:].isdecimal():
        return {}
    return {"generation": generation[1:], "job": f"'{job}'"}
