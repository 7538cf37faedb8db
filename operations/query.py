"""Asking the tables: SQL by their declared names, from the command line or a shell."""

import code
import re
from typing import Any

import deltalake
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession
from rich.console import Console
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
    except (AnalysisException, ParseException) as error:
        raise LakehouseError(str(error).split("\n\nJVM")[0].strip(), "lakehouse sql   (lists the tables)") from None
    grid = Grid(*result.columns)
    for row in found[:rows]:
        grid.add_row(*(_text(value) for value in row))
    console.print(grid)
    if len(found) > rows:
        console.print(f"… more than {rows} rows; --rows shows more.")


def register(spark: SparkSession, settings: Settings, query: str | None = None) -> None:
    """Give the session the declared tables by name; only those a query names, when one is given."""
    for table in tables().values():
        if query is not None and not re.search(rf"\b{re.escape(table.name)}\b", query):
            continue
        paths = _paths(settings, table)
        spark.sql(f"create database if not exists {table.layer}")
        if len(paths) == 1:
            spark.sql(f"create table if not exists {table.name} using delta location '{paths[0]}'")
        elif paths:
            _register_union(spark, table, paths)


def open_shell(settings: Settings) -> None:
    """Open an interactive Python with the session and the tables."""
    spark = session(settings, "lakehouse shell")
    register(spark, settings)
    banner = "spark, settings and the tables are here: spark.table('silver.clicks').show()"
    code.interact(banner=banner, local={"spark": spark, "settings": settings}, exitmsg="")


def _register_union(spark: SparkSession, table: Table, paths: list[str]) -> None:
    parts = " union all ".join(f"select * from delta.`{path}`" for path in paths)
    spark.sql(f"create or replace temporary view {table.name.replace('.', '_')} as {parts}")


def _paths(settings: Settings, table: Table) -> list[str]:
    """Find a table, or the folders that its several writers keep of it."""
    path = table.path(settings.warehouse)
    candidates = [path, *sorted(child for child in path.glob("*") if child.is_dir())]
    return [str(each) for each in candidates if (each / "_delta_log").is_dir()]


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, (bytes, bytearray)) else str(value)
