"""The catalog: a metastore view for every table, for dbt, SQL clients and notebooks."""

import json
import os
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from config.declarations import Table, tables
from config.errors import LakehouseError
from config.files import DamagedFileError, decode, write_whole
from config.locks import exclusive
from config.settings import ROOT, Settings
from config.spark import session
from lake.views import all_generations, described, feature_names, views
from local.catalog import Catalog


def connect(settings: Settings, name: str) -> SparkSession:
    """Start the catalog if needed, and a session that uses it, with every view up to date."""
    Catalog(settings).start()
    # The first session creates the metastore's own tables: two at once would block each other.
    with exclusive(settings.home / "catalog" / "refreshing"):
        spark = session(settings, name, catalog=True)
        refresh(spark, settings)
    return spark


def refresh(spark: SparkSession, settings: Settings) -> list[str]:
    """Create, change and drop views to match the tables, generations and publications; return the changed names."""
    wanted, there = queries(settings), _registered(settings)
    changed = [name for name, query in wanted.items() if there.get(name) != query]
    for layer in sorted({name.partition(".")[0] for name in changed}):
        spark.sql(f"create database if not exists {layer}")
    for name in changed:
        _put(spark, name, wanted[name])
    gone = there.keys() - wanted.keys()
    for name in gone:
        spark.sql(f"drop view if exists {name}")
    if changed or gone:
        write_whole(_register(settings), json.dumps(wanted))
    return changed


def in_use(settings: Settings) -> bool:
    """Return whether the catalog of this home was ever used."""
    return _register(settings).exists()


def keep_up(settings: Settings) -> None:
    """Refresh the catalog if it is in use.

    Call it after tables were added and before they are served, and before tables are dropped.
    """
    if in_use(settings):
        bring_up(settings)


def bring_up(settings: Settings) -> None:
    """Refresh the catalog if needed, in its own process, for callers without a catalog session."""
    if _registered(settings) == queries(settings):
        return
    done = subprocess.run(
        [sys.executable, "-m", "lakehouse", "catalog", "refresh"],
        cwd=ROOT,
        env=os.environ | {"LAKEHOUSE_HOME": str(settings.home)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LakehouseError(f"The catalog could not be refreshed:\n{done.stderr[-500:]}", "lakehouse catalog refresh")


def queries(settings: Settings) -> dict[str, str]:
    """Return the query behind every name; a declared table that was never written is an empty view."""
    found = views(settings)
    declared = {name: columns for table in tables().values() for name, columns in _names(table).items()}
    return found | {name: _empty(columns) for name, columns in declared.items() if name not in found}


def _put(spark: SparkSession, name: str, query: str) -> None:
    """Create a view or ALTER it in place: CREATE OR REPLACE drops it briefly, and concurrent readers would fail."""
    comment = described(name).replace("\\", "\\\\").replace("'", "\\'")
    if spark.catalog.tableExists(name):
        spark.sql(f"alter view {name} as {query}")
        spark.sql(f"alter view {name} set tblproperties ('comment' = '{comment}')")
    else:
        spark.sql(f"create view {name} comment '{comment}' as {query}")


def _names(table: Table) -> dict[str, dict[str, str]]:
    """Name a table and, for a gold table, what dbt merges: all generations, what features add; with the columns."""
    columns = {name: column.type for name, column in table.columns.items()}
    if table.layer != "gold":
        return {table.name: columns}
    found = {table.name: columns, all_generations(table): columns | {"generation": "int"}}
    return found | dict.fromkeys(feature_names(table), columns)


def _empty(columns: dict[str, str]) -> str:
    selected = ", ".join(f"cast(null as {kind}) as `{name}`" for name, kind in columns.items())
    return f"select {selected} where false"


def _registered(settings: Settings) -> dict[str, str]:
    file = _register(settings)
    try:
        return decode(file.read_bytes(), file, "") if file.exists() else {}
    except DamagedFileError:
        return {}  # every view is registered again


def _register(settings: Settings) -> Path:
    """Return the file with the queries last registered: asking the catalog itself takes long."""
    return settings.home / "catalog" / "views.json"
