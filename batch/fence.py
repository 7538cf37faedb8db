"""The fence: the Kafka offsets that a run has read, and the event time up to which it is complete."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from config.declarations import table_named, topics
from config.failpoints import failpoint
from config.settings import Settings
from lake.location import table_location
from lake.tables import append_once, arrow_schema, read_arrow

TABLE = "ops.fences"
ARCHIVE = "bronze.events"
Offsets = Mapping[tuple[str, int], int]


@dataclass(frozen=True)
class Fence:
    """The first unread offset of each partition, and the event time before which no event is missing."""

    offsets: Offsets
    complete_until: datetime | None

    @property
    def records(self) -> int:
        """Return the number of offsets before it."""
        return sum(self.offsets.values())


def take(spark: SparkSession, settings: Settings) -> tuple[DataFrame, Fence]:
    """Pin the archive at its current version; return its records and the fence after the last one."""
    location = table_location(settings, ARCHIVE)
    version = location.table().version()
    archive = spark.read.format("delta").option("versionAsOf", version).load(str(location))
    ends = archive.groupBy("topic", "partition").agg(F.max("offset"), F.max("arrival_time")).collect()
    offsets = {(topic, partition): last + 1 for topic, partition, last, _ in ends}
    # Without the records whose timestamp cannot be true: they have no arrival time.
    latest = max((arrival.replace(tzinfo=UTC) for *_, arrival in ends if arrival), default=None)
    return archive, Fence(offsets, latest - _disorder(settings) if latest else None)


def _disorder(settings: Settings) -> timedelta:
    """Return how far an event on time can lie behind the latest arrival: the allowance plus the arrival skew."""
    allowed = [topic.lateness.allowance for topic in topics().values() if topic.archived and topic.lateness.allowance]
    return max(allowed, default=timedelta(0)) + timedelta(minutes=settings.streaming.skew_minutes)


def record_fence(settings: Settings, run: str, fence: Fence) -> None:
    """Record the fence of a run, once."""
    common = {"run": run, "complete_until": fence.complete_until, "recorded_at": datetime.now(UTC)}
    rows = [
        {**common, "topic": topic, "partition": partition, "offset": offset}
        for (topic, partition), offset in fence.offsets.items()
    ]
    table = table_named(TABLE)
    append_once(
        table_location(settings, table.name), pa.Table.from_pylist(rows, arrow_schema(table)), f"fence/{run}", 1
    )
    failpoint(f"after {TABLE}")


def of_run(settings: Settings, run: str) -> Fence:
    """Read the fence of a run."""
    rows = read_arrow(table_location(settings, TABLE), pc.field("run") == run).to_pylist()
    offsets = {(row["topic"], row["partition"]): row["offset"] for row in rows}
    return Fence(offsets, next((row["complete_until"] for row in rows), None))


def runs(settings: Settings) -> dict[str, datetime]:
    """Return the runs that recorded a fence, and when."""
    rows = read_arrow(table_location(settings, TABLE)).to_pylist()
    return {row["run"]: row["recorded_at"] for row in sorted(rows, key=lambda row: row["recorded_at"])}
