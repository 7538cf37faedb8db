"""Query the tables by their declared names with SQL, from the command line or a shell."""

import code
import json
import re
from collections.abc import Iterator

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from rich.table import Table as Grid

from config.declarations import tables
from config.errors import LakehouseError
from config.settings import Settings
from config.spark import session
from config.terminal import Terminal, plain
from lake.catalog import connect, in_use
from lake.views import described, served_locations, views

# The models of dbt are only in the catalog.
BY_DBT = re.compile(r"\b(staging|serving|marts)\.\w", re.IGNORECASE)


def list_tables(settings: Settings, console: Terminal) -> None:
    """List the existing tables and views with their descriptions, and the row counts of tables."""
    grid = Grid("table", "rows", "description")
    for name in views(settings):
        stored = served_locations(settings, tables()[name]) if name in tables() else []
        rows = sum(path.table().count() for path in stored)
        grid.add_row(name, f"{rows:,}" if stored else "", described(name))
    for name, description in _built_by_dbt(settings):
        grid.add_row(name, "", description)
    console.print(grid)


def show(settings: Settings, query: str, rows: int, console: Terminal) -> None:
    """Run a query and print its first rows."""
    with console.status("Starting Spark …"):
        if BY_DBT.search(query):
            spark = connect(settings, "lakehouse sql")
        else:
            spark = session(settings, "lakehouse sql")
            register(spark, settings, query)
    try:
        result = spark.sql(query)
        found = result.limit(rows + 1).collect()
    except PySparkException as error:
        raise LakehouseError(str(error).split("\n\nJVM")[0].strip(), "lakehouse sql   (lists the tables)") from None
    grid = Grid(*result.columns)
    for row in found[:rows]:
        grid.add_row(*(plain(value) for value in row))
    console.print(grid)
    if len(found) > rows:
        console.print(f"… more than {rows} rows; use --rows to show more.")


def register(spark: SparkSession, settings: Settings, query: str | None = None) -> None:
    """Create a view of every table in the session; with a query, only of the tables that it names."""
    for name, selected in views(settings).items():
        if query is None or re.search(rf"\b{re.escape(name)}\b", query, re.IGNORECASE):
            spark.sql(f"create database if not exists {name.partition('.')[0]}")
            spark.sql(f"create view if not exists {name} as {selected}")


def open_shell(settings: Settings) -> None:
    """Open an interactive Python shell with the Spark session and the tables."""
    if in_use(settings):
        spark = connect(settings, "lakehouse shell")
    else:
        spark = session(settings, "lakehouse shell")
        register(spark, settings)
    banner = "Available: spark, settings and the tables: spark.table('silver.clicks').show()"
    code.interact(banner=banner, local={"spark": spark, "settings": settings}, exitmsg="")


def _built_by_dbt(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the models of the last dbt run with their descriptions."""
    folder = settings.home / "reports" / "dbt"
    if (folder / "manifest.json").exists() and (folder / "run_results.json").exists():
        nodes = json.loads((folder / "manifest.json").read_text())["nodes"]
        for node in sorted(nodes.values(), key=lambda node: (node["schema"], node["name"])):
            if node["resource_type"] == "model" and node["schema"] != "staging":
                yield f"{node['schema']}.{node['name']}", node["description"]
