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

from config.declarations import tables
from config.errors import LakehouseError
from config.settings import Settings
from config.spark import session
from operations.views import described, views
from streaming.views import served


def list_tables(settings: Settings, console: Console) -> None:
    """List the tables that there are, with what each is, and how many rows the stored ones have."""
    grid = Grid("table", "rows", "what it is")
    for name in views(settings):
        stored = served(settings, tables()[name]) if name in tables() else []
        rows = sum(deltalake.DeltaTable(str(path)).count() for path in stored)
        grid.add_row(name, f"{rows:,}" if stored else "", described(name))
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
    """Give the session a view of every table by its name; only of those a query names, when one is given."""
    for name, selected in views(settings).items():
        if query is None or re.search(rf"\b{re.escape(name)}\b", query, re.IGNORECASE):
            spark.sql(f"create database if not exists {name.partition('.')[0]}")
            spark.sql(f"create view if not exists {name} as {selected}")


def open_shell(settings: Settings) -> None:
    """Open an interactive Python with the session and the tables."""
    spark = session(settings, "lakehouse shell")
    register(spark, settings)
    banner = "spark, settings and the tables are here: spark.table('silver.clicks').show()"
    code.interact(banner=banner, local={"spark": spark, "settings": settings}, exitmsg="")


def _text(value: Any) -> str:
    return escape(value.decode(errors="replace") if isinstance(value, (bytes, bytearray)) else str(value))
