"""The catalog's names: a view for every table that can be asked for, for dbt, SQL clients and notebooks alike."""

import fcntl
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from config.declarations import Table, tables
from config.errors import LakehouseError
from config.files import write_whole
from config.settings import ROOT, Settings
from config.spark import session
from lake.views import described, views
from local.catalog import Catalog


def connect(settings: Settings, name: str) -> SparkSession:
    """Start the catalog unless it runs, and the process's session with it, every name in it up to date."""
    Catalog(settings).start()
    with _alone(settings):  # the first makes the metastore's own tables: two at once would block each other
        spark = session(settings, name, catalog=True)
        refresh(spark, settings)
    return spark


def refresh(spark: SparkSession, settings: Settings) -> list[str]:
    """Make the views as tables, generations and publications are now; tell which were not."""
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
    """Tell whether anyone has used the catalog here."""
    return _register(settings).exists()


def keep_up(settings: Settings) -> None:
    """Refresh the catalog if anyone uses it.

    Call it when tables were added and before they are served, and when some are to go and before they do.
    """
    if in_use(settings):
        bring_up(settings)


def bring_up(settings: Settings) -> None:
    """Refresh the catalog unless it is right, for who has no session with it: in a process of its own."""
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
    """Give the query behind every name; a declared table that was never written is there too, without rows."""
    found = views(settings)
    empty = {name: _empty(table) for table in tables().values() for name in _names(table) if name not in found}
    return found | empty


def _put(spark: SparkSession, name: str, query: str) -> None:
    """Make a view, or change it where it stands: replaced, it would be gone for a moment, for who asks just then."""
    comment = described(name).replace("\\", "\\\\").replace("'", "\\'")
    if spark.catalog.tableExists(name):
        spark.sql(f"alter view {name} as {query}")
        spark.sql(f"alter view {name} set tblproperties ('comment' = '{comment}')")
    else:
        spark.sql(f"create view {name} comment '{comment}' as {query}")


def _names(table: Table) -> list[str]:
    """Name a table, and what is merged of it where there is a batch layer."""
    short = table.name.partition(".")[2]
    # Asked for one after the other: of a package that was left out, a module cannot even be looked for.
    there = importlib.util.find_spec("batch") and importlib.util.find_spec("batch.views")
    both = table.layer == "gold" and there
    return [table.name, f"merged.{short}"] if both else [table.name]


def _empty(table: Table) -> str:
    columns = ", ".join(f"cast(null as {column.type}) as `{name}`" for name, column in table.columns.items())
    return f"select {columns} where false"


def _registered(settings: Settings) -> dict[str, str]:
    file = _register(settings)
    found: dict[str, str] = json.loads(file.read_text()) if file.exists() else {}
    return found


def _register(settings: Settings) -> Path:
    """Name the file that tells the queries last given to the catalog: the catalog itself takes long to ask."""
    return settings.home / "catalog" / "views.json"


@contextmanager
def _alone(settings: Settings) -> Iterator[None]:
    folder = settings.home / "catalog"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "refreshing").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
