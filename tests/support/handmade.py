"""Hand-made records, and landing without a broker: tests what a micro-batch does, not where it comes from."""

import json
import shutil
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import deltalake
from pyspark.sql import DataFrame, Row, SparkSession

from config.declarations import table_named
from config.settings import Settings
from lake.batch import Batch
from lake.location import table_location
from lake.tables import create_missing
from streaming.landing.arrival import as_archived
from streaming.landing.job import job, land, parse_and_validate

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
RECORD = (
    "topic string, partition int, offset bigint, key binary, value binary, "
    "headers array<struct<key:string,value:binary>>, timestamp timestamp"
)


def frame(spark: SparkSession, table: str, *rows: dict[str, Any]) -> DataFrame:
    """Make rows of a table; what is not given is null."""
    columns = table_named(table).stored
    return spark.createDataFrame([tuple(row.get(name) for name in columns) for row in rows], table_named(table).ddl)


def iso(moment: datetime) -> str:
    """Format a time as in an event."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def click(event_id: str = "e1", at: datetime = NOON, **fields: Any) -> dict[str, Any]:
    """Make a valid page view, with any field replaced."""
    event = {
        "event_id": event_id,
        "type": "page_view",
        "event_time": iso(at),
        "schema_version": 1,
        "user_id": "u1",
        "product_id": "p1",
        "dwell_ms": 1500,
        "ip": "192.0.2.0",
        "agent": "Firefox/desktop",
    }
    return {name: value for name, value in (event | fields).items() if value is not ...}


def change(event_id: str, at: datetime, tier: str, user_id: str = "u1", op: str = "u") -> dict[str, Any]:
    """Make a valid change of a user."""
    row = {"tier": tier, "country": "DE", "email": f"{user_id}@example.org"}
    event = {"event_id": event_id, "type": "user_changed", "event_time": iso(at), "schema_version": 1}
    before = {} if op == "c" else {"before": row}
    return event | {"user_id": user_id, "op": op} | before | {"after": row}


@dataclass
class Log:
    """Records in the order of the log, each with the next offset of its topic and partition."""

    records: list[tuple[Any, ...]] = field(default_factory=list)

    def send(
        self, value: Any, topic: str = "clicks", arrival: datetime | None = None, key: Any = ..., partition: int = 0
    ) -> int:
        """Append a record; a dictionary is an event, and its key is taken from it."""
        offset = sum(1 for record in self.records if record[:2] == (topic, partition))
        if isinstance(value, dict):
            key = value.get("user_id", value.get("order_id")) if key is ... else key
            arrival = arrival or datetime.fromisoformat(value["event_time"]) + timedelta(seconds=1)
            value = json.dumps(value, separators=(",", ":")).encode()
        key = "u1" if key is ... else key
        arrival = arrival or NOON + timedelta(seconds=1)
        self.records.append((topic, partition, offset, key.encode() if key is not None else None, value, None, arrival))
        return offset


class Lake:
    """The tables of one home, landed batch by batch."""

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        self.spark, self.settings, self.batches = spark, settings, 0
        create_missing(job().writes, settings, 1)

    def copied(self, folder: Path) -> "Lake":
        """Copy the tables into another home: milliseconds, where landing them takes seconds."""
        shutil.copytree(self.settings.home, folder, dirs_exist_ok=True)
        copy = Lake(self.spark, self.settings.at(folder))
        copy.batches = self.batches
        return copy

    def land(
        self,
        records: list[tuple[Any, ...]],
        batch: int | None = None,
        epoch: int = 1,
        landed: dict[str, int] | None = None,
        *,
        is_replay: bool = False,
    ) -> None:
        """Land records as the next micro-batch, or repeat a given one."""
        number = self.batches if batch is None else batch
        rows = parse_and_validate(as_archived(self.spark.createDataFrame(records, RECORD)))
        common: dict[str, Any] = {"records": len(records), "already_landed": landed or {}, "is_replay": is_replay}
        land(Batch(rows, "landing", number, epoch, 1, self.settings, **common))
        self.batches = number + 1

    def rows(self, table: str) -> list[Row]:
        """Read a table in the order of the log; without Spark, which takes a second per table."""
        path = str(table_location(self.settings, table))
        rows = deltalake.DeltaTable(path).to_pyarrow_dataset().to_table(use_threads=False)
        return [_row(row) for row in rows.sort_by([("partition", "ascending"), ("offset", "ascending")]).to_pylist()]

    def contents(self) -> dict[str, set[str]]:
        """Return the rows that landing wrote, by table, in a comparable form."""
        return {name: {repr(row) for row in self.rows(name)} for name in job().writes}


def _row(values: dict[str, Any]) -> Row:
    return Row(**{name: Row(**value) if isinstance(value, dict) else value for name, value in values.items()})
