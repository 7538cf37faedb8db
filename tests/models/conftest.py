"""One lake, streamed, published part-way and built by dbt, for all tests of the models."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gold import WAITING, catch_up, records_of
from handmade import Lake
from oracle import Oracle, from_rows
from pyspark.sql import SparkSession
from with_batch import publish

from config.settings import ROOT, Settings
from lake.batch_log import closed_until
from local.catalog import Catalog
from local.simulator.plan import Plan
from local.thrift import Thrift

READ = """
import sys
import pyarrow.parquet as pq
from config.settings import load_settings
from lake.catalog import connect
spark = connect(load_settings(), "reading")
for name in sys.argv[2:]:
    pq.write_table(spark.table(name).toArrow(), f"{sys.argv[1]}/{name}.parquet")
"""


@dataclass(frozen=True)
class Built:
    """A home in which dbt has built everything, and what is known of it."""

    settings: Settings
    records: list[tuple[Any, ...]]
    """All that landed, and streamed."""

    published: int
    """How many of these the batch layer had read."""

    said: str
    """What dbt printed."""

    @property
    def environ(self) -> dict[str, str]:
        """Give the variables with which commands work in this home."""
        return environ(self.settings)

    def run(self, script: str) -> str:
        """Run a script in this home, as a user of it would; the first command that fails ends it."""
        return done(self.settings, ["bash", "-euo", "pipefail", "-c", script])

    def read(self, *names: str) -> dict[str, pa.Table]:
        """Read tables by their names in the catalog, from a process of their own."""
        folder = self.settings.home / "tmp"
        done(self.settings, [sys.executable, "-c", READ, str(folder), *names])
        return {name: plain(pq.read_table(folder / f"{name}.parquet")) for name in names}

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """Give what dbt knows of the project."""
        found: dict[str, Any] = json.loads((self.settings.home / "reports" / "dbt" / "manifest.json").read_text())
        return found

    @property
    def models(self) -> dict[str, dict[str, Any]]:
        """Give the models by their names."""
        return {node["name"]: node for node in self.manifest["nodes"].values() if node["resource_type"] == "model"}

    @cached_property
    def answers(self) -> dict[str, pa.Table]:
        """Read every serving model and mart."""
        names = [name for name, model in self.models.items() if model["schema"] != "staging"]
        found = self.read(*(f"{self.models[name]['schema']}.{name}" for name in names))
        return {name.partition(".")[2]: table for name, table in found.items()}


def plain(table: pa.Table) -> pa.Table:
    """Leave the zone out of times: all are in UTC."""
    kinds = [pa.timestamp("us") if pa.types.is_timestamp(field.type) else field.type for field in table.schema]
    return table.cast(pa.schema(list(zip(table.column_names, kinds, strict=True))))


def _rows(table: pa.Table, columns: list[str]) -> Counter[str]:
    return Counter(repr(tuple(row[column] for column in columns)) for row in plain(table).to_pylist())


class Wanted:
    """What must be there, worked out from the raw records by an oracle that shares nothing with the project."""

    def __init__(self, built: Built) -> None:
        self.settings = built.settings
        self.raw = [(*record[:5], record[6]) for record in built.records]
        self.oracle = Oracle(from_rows(self.raw))

    def closed(self, name: str) -> datetime:
        """Say before which event time the rows of a table are final, without a zone."""
        found = closed_until(self.settings, name)
        assert found
        return found.replace(tzinfo=None)

    def kappa(self, name: str) -> pa.Table:
        """Give the stream's answer."""
        until = self.closed(name).replace(tzinfo=UTC) if f"gold.{name}" in WAITING else None
        return plain(self.oracle.table(f"gold.{name}", closed_until=until))

    def silver(self, name: str) -> pa.Table:
        """Give a table of silver."""
        return plain(self.oracle.table(f"silver.{name}"))

    plain = staticmethod(plain)

    @staticmethod
    def compare(found: pa.Table, asked: pa.Table, ignoring: tuple[str, ...] = ()) -> None:
        """Fail unless both have the same columns, but for some, and the same rows, and any."""
        columns = sorted(asked.column_names)
        assert sorted(set(found.column_names) - set(ignoring)) == columns
        there, needed = _rows(found, columns), _rows(asked, columns)
        assert (list((needed - there).elements())[:3], list((there - needed).elements())[:3]) == ([], []), columns
        assert there


def environ(settings: Settings) -> dict[str, str]:
    """Give the variables with which commands work in a home, and find those of this environment."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # A user's shell has none of those that this process has set for its Spark.
    shell = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    return shell | {"LAKEHOUSE_HOME": str(settings.home), "PATH": path, "COLUMNS": "200"}


def done(settings: Settings, command: list[str]) -> str:
    """Run a command in a home and give what it printed."""
    ended = subprocess.run(command, cwd=ROOT, env=environ(settings), text=True, capture_output=True, check=False)
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    return ended.stdout


@pytest.fixture(scope="session")
def built(spark: SparkSession, settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    """Land, publish what has landed, land the rest, stream it all, and build."""
    own = settings.at(tmp_path_factory.mktemp("models") / "a home")
    lake = Lake(spark, own)
    records = records_of(Plan(seed=31, events=2_400, days=4, late=0.05, duplicates=0.03, malformed=0.01))
    published = len(records) * 3 // 5
    lake.land(records[:published])
    publish(spark, own)
    lake.land(records[published:])
    catch_up(lake)
    try:
        said = done(own, [sys.executable, "-m", "lakehouse", "dbt", "build"])
        yield Built(own, records, published, said)
    finally:
        Thrift(own).stop()
        Catalog(own).stop()


@pytest.fixture(scope="session")
def wanted(built: Built) -> Wanted:
    """Ask the oracle, once."""
    return Wanted(built)
