"""Views: what readers find under each table's name, in SQL: the generation that is served, and what is derived."""

from pathlib import Path

import deltalake

from config.declarations import Table, table_named, tables
from config.settings import Settings
from streaming import generations
from streaming.tables import made


def views(settings: Settings) -> dict[str, str]:
    """Write a query for each table that there is, by its name.

    Where a table has several generations its query asks the pointer itself, so a view made of it follows every switch.
    """
    found = {}
    for table in tables().values():
        built = generations.built(settings, table) if table in generations.generational() else []
        parts = (
            _served(settings, table, built)
            if len(built) > 1
            else [f"select * from {delta(path)}" for path in served(settings, table)]  # noqa: S608
        )
        if parts:
            valid_to = f", {table.valid_to} as valid_to" if table.valid_to else ""
            found[table.name] = f"select *{valid_to} from ({' union all '.join(parts)})"  # noqa: S608
    return found


def served(settings: Settings, table: Table) -> list[Path]:
    """Find the Delta table that is served under a name now, or the folders that its several writers keep of it."""
    if table in generations.generational():
        paths = [table.path(settings.warehouse, generations.live(settings)[table.name])]
    else:
        path = table.path(settings.warehouse)
        paths = [path, *sorted(path.glob("*")), *sorted(path.glob("g[0-9]*/*"))]
    return [path for path in paths if made(path)]


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
    parts = []
    for generation in built:
        path = table.path(settings.warehouse, generation)
        there = {field.name for field in deltalake.DeltaTable(str(path)).schema().fields}
        # A generation may be of another version of the logic, and lack a column.
        columns = ", ".join(
            f"`{name}`" if name in there else f"cast(null as {column.type}) as `{name}`"
            for name, column in table.stored.items()
        )
        parts.append(f"select {columns} from {delta(path)} where {generation} = {number}")  # noqa: S608
    return parts
