"""Views: the SQL behind every name that readers can query: the served generation, and what is derived from it."""

from types import ModuleType

from config.declarations import Table, tables
from config.discovery import provided
from config.settings import Settings
from lake import generations
from lake.location import Location, table_location


def views(settings: Settings) -> dict[str, str]:
    """Return the query behind every name: those of the tables, and those that features add."""
    found = table_views(settings)
    for module in _features():
        found |= module.views(settings)
    return found


def feature_names(table: Table) -> list[str]:
    """Name the views with a table's columns that features add, also before they have written it."""
    return [name for module in _features() for name in module.names(table)]


def _features() -> list[ModuleType]:
    """Find the other packages with a file views.py, which has `views` and `names`."""
    return [module for module in provided("views") if module.__name__ != __name__]


def described(name: str) -> str:
    """Describe a view; a view of the batch layer or of all generations has the description of its table."""
    layer, _, table = name.partition(".")
    of = {each.name.partition(".")[2]: each.description for each in tables().values() if each.layer != "ops"}
    if name in tables():
        return tables()[name].description
    how = {"batch": "As the batch layer has it", "gold_generations": "Every generation"}
    return f"{how.get(layer, layer)}: {of.get(table, '')}"


def table_views(settings: Settings) -> dict[str, str]:
    """Return the query of each existing table, by name.

    The query of a table with several generations reads the pointer, so that a view follows every switch.
    """
    found = {}
    for table in tables().values():
        built = generations.built(settings, table) if table in generations.replayable_tables() else []
        paths = served_locations(settings, table)
        if len(built) > 1:
            parts = _served(settings, table, built)
        elif len(paths) > 1:
            parts = [_columns(table, path, _writer(table, path)) for path in paths]
        else:
            parts = [f"select * from {delta(path)}" for path in paths]  # noqa: S608
        if parts:
            valid_to = f", {table.valid_to} as valid_to" if table.valid_to else ""
            found[table.name] = f"select *{valid_to} from ({' union all '.join(parts)})"  # noqa: S608
        if built and table.layer == "gold":
            found[all_generations(table)] = _all_generations(settings, table, built)
    return found


def all_generations(table: Table) -> str:
    """Name the view of every generation of a gold table, with the column `generation`; dbt selects the served one."""
    return f"{table.layer}_generations.{table.name.partition('.')[2]}"


def served_locations(settings: Settings, table: Table) -> list[Location]:
    """Return the location of the served table, or of each writer's folder if it has several writers."""
    if table in generations.replayable_tables():
        paths = [table_location(settings, table.name, generations.live(settings)[table.name])]
    else:
        path = table_location(settings, table.name)
        below = path.children()
        paths = [path, *below, *(each for folder in below for each in folder.children() if folder.name.startswith("g"))]
    return [path for path in paths if path.is_table()]


def delta(path: Location) -> str:
    """Return a Delta table's name in SQL, by path."""
    return "delta.`" + str(path).replace("`", "``") + "`"


def _served(settings: Settings, table: Table, built: list[int]) -> list[str]:
    """Select the generation that the pointer names at query time."""
    pointer = delta(table_location(settings, generations.TABLE))
    number = (
        f"(select coalesce(max_by(generation, switch), {generations.FIRST}) from {pointer}"  # noqa: S608
        f" where table_name = '{table.name}')"
    )
    paths = {generation: table_location(settings, table.name, generation) for generation in built}
    return [f"{_columns(table, path)} where {generation} = {number}" for generation, path in paths.items()]


def _all_generations(settings: Settings, table: Table, built: list[int]) -> str:
    paths = {generation: table_location(settings, table.name, generation) for generation in built}
    parts = (_columns(table, path, extra={"generation": str(number)}) for number, path in paths.items())
    return " union all ".join(parts)


def _columns(
    table: Table, path: Location, known: dict[str, str] | None = None, extra: dict[str, str] | None = None
) -> str:
    """Select the declared columns from a folder that may lack newer ones.

    known: columns given as SQL; extra: further columns, in SQL, after the declared ones.
    """
    there = {field.name: f"`{field.name}`" for field in path.table().schema().fields} | (known or {})
    columns = ", ".join(
        f"{there.get(name, f'cast(null as {column.type})')} as `{name}`" for name, column in table.stored.items()
    )
    columns += "".join(f", {value} as `{name}`" for name, value in (extra or {}).items())
    return f"select {columns} from {delta(path)}"  # noqa: S608


def _writer(table: Table, path: Location) -> dict[str, str]:
    """Expose generation and job of a folder as literals, so that Spark prunes the other folders."""
    generation, job = path.parent.name, path.name
    if not {"generation", "job"} <= set(table.stored) or not generation[1:].isdecimal():
        return {}
    return {"generation": generation[1:], "job": f"'{job}'"}
