"""The fence: how far in the log a run has read, and the event time up to which it is complete."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from config.declarations import table_named, topics
from config.failpoints import failpoint
from config.settings import Settings
from lake.tables import append_once, arrow_schema, read_arrow

TABLE = "ops.fences"
ARCHIVE = "bronze.events"
Offsets = Mapping[tuple[str, int], int]


@dataclass(frozen=True)
class Fence:
    """The first offset of each partition that was not read, and the event time before which nothing is missing."""

    offsets: Offsets
    complete_until: datetime | None

    @property
    def records(self) -> int:
        """Count the offsets before it."""
        return sum(self.offsets.values())


def take(spark: SparkSession, settings: Settings) -> tuple[DataFrame, Fence]:
    """Pin the archive as it is now: every record of it, and the fence behind the last of them."""
    path = str(table_named(ARCHIVE).path(settings.warehouse))
    version = deltalake.DeltaTable(path).version()
    archive = spark.read.format("delta").option("versionAsOf", version).load(path)
    ends = archive.groupBy("topic", "partition").agg(F.max("offset"), F.max("arrival_time")).collect()
    offsets = {(topic, partition): last + 1 for topic, partition, last, _ in ends}
    latest = max((arrival.replace(tzinfo=UTC) for *_, arrival in ends), default=None)
    return archive, Fence(offsets, latest - _disorder(settings) if latest else None)


def _disorder(settings: Settings) -> timedelta:
    """Say how far behind the latest arrival an event in time may still lie: late by what is allowed, and skewed."""
    allowed = [topic.lateness.allowance for topic in topics().values() if topic.archived and topic.lateness.allowance]
    return max(allowed, default=timedelta(0)) + timedelta(minutes=settings.streaming.skew_minutes)


def record_fence(settings: Settings, run: str, fence: Fence) -> None:
    """Write down the fence of a run, once."""
    common = {"run": run, "complete_until": fence.complete_until, "recorded_at": datetime.now(UTC)}
    rows = [
        {**common, "topic": topic, "partition": partition, "offset": offset}
        for (topic, partition), offset in fence.offsets.items()
    ]
    table = table_named(TABLE)
    append_once(table.path(settings.warehouse), pa.Table.from_pylist(rows, arrow_schema(table)), f"fence/{run}", 1)
    failpoint(f"after {TABLE}")


def of_run(settings: Settings, run: str) -> Fence:
    """Read the fence of a run."""
    rows = read_arrow(table_named(TABLE).path(settings.warehouse), pc.field("run") == run).to_pylist()
    offsets = {(row["topic"], row["partition"]): row["offset"] for row in rows}
    return Fence(offsets, next((row["complete_until"] for row in rows), None))


def runs(settings: Settings) -> dict[str, datetime]:
    """List the runs that have come as far as having a fence, and when."""
    rows = read_arrow(table_named(TABLE).path(settings.warehouse)).to_pylist()
    return {row["run"]: row["recorded_at"] for row in sorted(rows, key=lambda row: row["recorded_at"])}
