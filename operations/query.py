"""Asking the tables: SQL by their declared names, from the command line or a shell."""

import code
import re
from typing import Any

import deltalake
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from config.declarations import Table, tables
from config.errors import LakehouseError
from config.settings import Settings
from config.spark import session


def list_tables(settings: Settings, console: Console) -> None:
    """List the declared tables that exist, with their rows."""
    grid = Grid("table", "rows", "what it is")
    for table in tables().values():
        for path in _paths(settings, table):
            rows = deltalake.DeltaTable(path).count()
            grid.add_row(table.name, f"{rows:,}", table.description)
    console.print(grid)


def show(settings: Settings, query: str, rows: int, console: Console) -> None:
    """Run a query and show its first rows."""
    with console.status("Starting Spark …"):
        spark = session(settings, "lakehouse sql")
        register(spark, settings, query)
    try:
        result = spark.sql(query)
        found = result.limit(rows + 1).collect()
    except PySparkException as error:
        raise LakehouseError(str(error).split("\n\nJVM")[0].strip(), "lakehouse sql   (lists the tables)") from None
    grid = Grid(*(escape(name) for name in result.columns))
    for row in found[:rows]:
        grid.add_row(*(_text(value) for value in row))
    console.print(grid)
    if len(found) > rows:
        console.print(f"… more than {rows} rows; --rows shows more.")


def register(spark: SparkSession, settings: Settings, query: str | None = None) -> None:
    """Give the session the declared tables by name; only those a query names, when one is given."""
    for table in tables().values():
        if query is not None and not re.search(rf"\b{re.escape(table.name)}\b", query, re.IGNORECASE):
            continue
        paths = _paths(settings, table)
        if paths:
            valid_to = f", {table.valid_to} as valid_to" if table.valid_to else ""
            parts = (f"select *{valid_to} from delta.`{path.replace('`', '``')}`" for path in paths)  # noqa: S608
            spark.sql(f"create database if not exists {table.layer}")
            spark.sql(f"create view if not exists {table.name} as {' union all '.join(parts)}")


def open_shell(settings: Settings) -> None:
    """Open an interactive Python with the session and the tables."""
    spark = session(settings, "lakehouse shell")
    register(spark, settings)
    banner = "spark, settings and the tables are here: spark.table('silver.clicks').show()"
    code.interact(banner=banner, local={"spark": spark, "settings": settings}, exitmsg="")


def _paths(settings: Settings, table: Table) -> list[str]:
    """Find a table, or the folders that its several writers keep of it."""
    path = table.path(settings.warehouse)
    candidates = [path, *sorted(child for child in path.glob("*") if child.is_dir())]
    return [str(each) for each in candidates if (each / "_delta_log").is_dir()]


def _text(value: Any) -> str:
    return escape(value.decode(errors="replace") if isinstance(value, (bytes, bytearray)) else str(value))
