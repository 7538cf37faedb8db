"""One lake, written as the oracle works it out, published part-way and built by dbt, for all tests of the models.

That the jobs and the batch layer write what the oracle works out is shown by their own tests (tests/streaming/roles,
tests/batch), and the whole chain by the long form in test_whole.py.
"""

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from dbt_process import DbtProcess
from gold import WAITING, records_of
from oracle import Oracle, from_rows
from oracle.answers import tables as known

from config.declarations import Table, tables
from config.settings import ROOT, Settings
from lake.batch_log import closed_until
from lake.location import table_location
from lake.tables import arrow_schema
from local.catalog import Catalog
from local.simulator.plan import Plan
from local.thrift import Thrift

PLAN = Plan(seed=31, events=2_400, days=4, late=0.05, duplicates=0.03, malformed=0.01)
GOLD = [table for table in tables().values() if table.layer == "gold" and table.name in known()]
SILVER = ("clicks_enriched", "orders", "payments", "users")


@dataclass(frozen=True)
class Built:
    """A home in which dbt has built everything."""

    settings: Settings
    records: list[tuple[Any, ...]]
    """All records that landed and were streamed."""

    published: int
    """How many of these the batch layer had read."""

    process: DbtProcess
    """The process that has built it."""

    said: str
    """What dbt printed."""

    @property
    def environ(self) -> dict[str, str]:
        """Return the variables with which commands work in this home."""
        return environ(self.settings)

    def run(self, script: str) -> str:
        """Run a script in this home, as a user would; the first command that fails ends it."""
        command = ["bash", "-euo", "pipefail", "-c", script]
        ended = subprocess.run(command, cwd=ROOT, env=self.environ, text=True, capture_output=True, check=False)
        assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
        return ended.stdout

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """Return what dbt knows about the project."""
        found: dict[str, Any] = json.loads((self.settings.home / "reports" / "dbt" / "manifest.json").read_text())
        return found

    @property
    def models(self) -> dict[str, dict[str, Any]]:
        """Return the models by their names."""
        return {node["name"]: node for node in self.manifest["nodes"].values() if node["resource_type"] == "model"}

    @cached_property
    def answers(self) -> dict[str, pa.Table]:
        """Read every serving model and mart."""
        names = [f"{model['schema']}.{name}" for name, model in self.models.items() if model["schema"] != "staging"]
        return {name.partition(".")[2]: plain(table) for name, table in self.process.tables(*names).items()}


def plain(table: pa.Table) -> pa.Table:
    """Drop the time zone: all times are in UTC."""
    kinds = [pa.timestamp("us") if pa.types.is_timestamp(field.type) else field.type for field in table.schema]
    return table.cast(pa.schema(list(zip(table.column_names, kinds, strict=True))))


def _rows(table: pa.Table, columns: list[str]) -> Counter[str]:
    return Counter(repr(tuple(row[column] for column in columns)) for row in plain(table).to_pylist())


class Wanted:
    """The expected tables, worked out from the raw records by an oracle that shares nothing with the project."""

    def __init__(self, built: Built) -> None:
        self.settings = built.settings
        self.raw = [(*record[:5], record[6]) for record in built.records]
        self.oracle = Oracle(from_rows(self.raw))

    def closed(self, name: str) -> datetime:
        """Return the event time before which the rows of a table are final, without a zone."""
        found = closed_until(self.settings, name)
        assert found
        return found.replace(tzinfo=None)

    def kappa(self, name: str) -> pa.Table:
        """Return the stream's answer."""
        until = self.closed(name).replace(tzinfo=UTC) if f"gold.{name}" in WAITING else None
        return plain(self.oracle.table(f"gold.{name}", closed_until=until))

    def silver(self, name: str) -> pa.Table:
        """Return a silver table."""
        return plain(self.oracle.table(f"silver.{name}"))

    plain = staticmethod(plain)

    @staticmethod
    def compare(found: pa.Table, asked: pa.Table, ignoring: tuple[str, ...] = ()) -> None:
        """Fail unless both have the same columns, except those ignored, and the same rows, at least one."""
        columns = sorted(asked.column_names)
        assert sorted(set(found.column_names) - set(ignoring)) == columns
        there, needed = _rows(found, columns), _rows(asked, columns)
        assert (list((needed - there).elements())[:3], list((there - needed).elements())[:3]) == ([], []), columns
        assert there


def environ(settings: Settings) -> dict[str, str]:
    """Return the variables with which commands work in a home, and find those of this environment."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # A user's shell has none of those that this process has set for its Spark.
    shell = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    return shell | {"LAKEHOUSE_HOME": str(settings.home), "PATH": path, "COLUMNS": "200"}


@pytest.fixture(scope="session")
def built(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    """Write the tables that dbt reads, publish three fifths of the records, and build."""
    own = settings.at(tmp_path_factory.mktemp("models") / "a home")
    records = records_of(PLAN)
    published = len(records) * 3 // 5
    _stream(own, records)
    if importlib.util.find_spec("batch"):
        importlib.import_module("publishing").publish(own, records[:published])
    process = DbtProcess(own, environ(own))
    try:
        yield Built(own, records, published, process, process.dbt("build"))
    finally:
        process.stop()
        Thrift(own).stop()
        Catalog(own).stop()


def _stream(settings: Settings, records: list[tuple[Any, ...]]) -> None:
    """Write silver and gold as the streaming jobs do, each job's rows final up to a time of its own."""
    oracle = Oracle(from_rows([(*record[:5], record[6]) for record in records]))
    latest = max(record[6] for record in records).astimezone(UTC)
    for name in SILVER:
        table = tables()[f"silver.{name}"]
        _write(settings, table, oracle.table(table.name))
    for number, table in enumerate(GOLD):
        until = latest - timedelta(minutes=20 + number) if table.final_at else None
        _write(settings, table, oracle.table(table.name, closed_until=until if table.name in WAITING else None))
        _record_batch(settings, table.name.partition(".")[2], until)


def _write(settings: Settings, table: Table, rows: pa.Table) -> None:
    schema = arrow_schema(table)
    for field in schema:
        if field.name not in rows.column_names:  # what no model reads the oracle does not know
            rows = rows.append_column(field, pa.nulls(len(rows), field.type))
    rows = rows.select(schema.names).cast(schema)
    path = table_location(settings, table.name)
    deltalake.write_deltalake(str(path), rows, partition_by=table.partitioned_by or None)


def _record_batch(settings: Settings, job: str, until: datetime | None) -> None:
    table = tables()["ops.batches"]
    row = {"job": job, "generation": 1, "epoch": 1, "batch": 0, "written": 1, "closed_until": until}
    rows = pa.Table.from_pylist([row | {"by_request": False, "recorded_at": datetime.now(UTC)}], arrow_schema(table))
    deltalake.write_deltalake(str(table_location(settings, table.name) / "g1" / job), rows)


@pytest.fixture(scope="session")
def wanted(built: Built) -> Wanted:
    """Ask the oracle, once."""
    return Wanted(built)
