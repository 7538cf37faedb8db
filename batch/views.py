"""Views of the batch layer: what is published, and the Lambda answer -> queries that follow every publication."""

from batch import fence, publications
from batch.merge import comparable, merged
from batch.segments import path
from config.declarations import table_named, tables
from config.settings import Settings
from lake.location import table_location
from lake.views import delta
from lake.views import table_views as of_stream


def views(settings: Settings) -> dict[str, str]:
    """Write a query for each table of the batch layer, and for each Lambda answer, by its name."""
    published = publications.served(settings)
    stream = of_stream(settings)
    found: dict[str, str] = {}
    for name in published.tables if published else ():
        found[f"batch.{name.partition('.')[2]}"] = _published(settings, name)
    for table in tables().values():
        short = table.name.partition(".")[2]
        if comparable(table) and table.name in stream:
            live = f"({stream[table.name]})"
            batch = f"({found[f'batch.{short}']})" if f"batch.{short}" in found else None
            found[f"merged.{short}"] = (
                merged(table, batch, live, _complete_until(settings)) if batch else stream[table.name]
            )
    return found


def _published(settings: Settings, name: str) -> str:
    """Take, of all rows there are, those that the last publication names when it is read."""
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


def _complete_until(settings: Settings) -> str:
    named = delta(table_location(settings, publications.TABLE))
    fences = delta(table_location(settings, fence.TABLE))
    run = f"(select max_by(run, publication) from {named})"  # noqa: S608
    return f"(select max(complete_until) from {fences} where run = {run})"  # noqa: S608
