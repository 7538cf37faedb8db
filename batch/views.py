"""Views of the batch layer: the rows that the last publication names -> queries that follow every publication."""

from batch import publications
from batch.segments import path
from config.declarations import Table, table_named
from config.settings import Settings
from lake.location import table_location
from lake.views import delta


def views(settings: Settings) -> dict[str, str]:
    """Write a query for each published table, by its name in the layer `batch`."""
    served = publications.served_publication(settings)
    return {_name(table): _published(settings, table) for table in (served.tables if served else ())}


def names(table: Table) -> list[str]:
    """Name the view of a gold table, which is declared also before the first publication."""
    return [_name(table.name)] if table.layer == "gold" else []


def _name(table: str) -> str:
    return f"batch.{table.partition('.')[2]}"


def _published(settings: Settings, name: str) -> str:
    """Select, of all rows that runs have written, those that the last publication names when the view is read."""
    table = table_named(name)
    named = delta(table_location(settings, publications.TABLE))
    columns = ", ".join(f"t.`{column}`" for column in table.stored)
    valid_to = f", {table.valid_to} as valid_to" if table.valid_to else ""
    rows = (
        f"select {columns} from {delta(path(settings, name))} t join {named} p"  # noqa: S608
        f" on p.table_name = '{name}' and p.segment = t.segment and p.computed_by = t.run"
        f" where p.publication = (select max(publication) from {named})"
    )
    return f"select *{valid_to} from ({rows})"  # noqa: S608
