"""The ledger: what came in and where it went, for every micro-batch and Kafka partition.

Every term is counted for itself; none is what is left over of the others. The ledger is written last: a batch
without its row in it is not whole. Each job has a folder of its own, because each process writes only its own tables.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from config.declarations import table_named
from config.settings import Settings
from streaming.failpoints import failpoint
from streaming.job import Batch
from streaming.tables import ORIGIN, append_once

TERMS = ("silver", "quarantined", "erased", "late", "duplicates")
Entry = list[dict[str, Any]]
Ends = dict[tuple[str, int], int]

_ARROW = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "timestamp": pa.timestamp("us", "UTC")}


def count(parsed: DataFrame, exceptions: DataFrame, batch: Batch) -> Entry:
    """Count a batch by topic and partition: its records, and each way they went, each by itself."""
    origin = list(ORIGIN)
    size = F.coalesce(F.octet_length("key"), F.lit(0)) + F.coalesce(F.octet_length("value"), F.lit(0))
    measures: list[Column | str] = [*origin, "event_time", "arrival_time", size.alias("size")]
    silver = parsed.join(F.broadcast(exceptions.select(*origin)), origin, "left_anti")
    ways = (
        parsed.select(*measures, F.lit("input").alias("term"))
        .unionByName(silver.select(*measures, F.lit("silver").alias("term")))
        .unionByName(exceptions.select(*measures, F.col("verdict").alias("term")))
    )
    came = F.col("term") == "input"
    landed = F.when(F.col("term") == "silver", F.col("event_time"))
    counted = ways.groupBy("topic", "partition").agg(
        F.min(F.when(came, F.col("offset"))).alias("from_offset"),
        (F.max(F.when(came, F.col("offset"))) + 1).alias("to_offset"),
        *(F.count_if(F.col("term") == term).alias(term) for term in ("input", *TERMS)),
        F.sum(F.when(came, F.col("size"))).alias("bytes"),
        F.min(landed).alias("min_event_time"),
        F.max(landed).alias("max_event_time"),
        F.max("arrival_time").alias("max_arrival_time"),
    )
    place = {"job": batch.job, "generation": batch.generation, "epoch": batch.epoch, "batch": batch.id}
    return [{**place, **row.asDict()} for row in counted.collect()]


def total(entry: Entry, term: str, topic: str | None = None) -> int:
    """Add up a term of an entry, over all its topics or one."""
    return sum(int(row[term]) for row in entry if topic in (None, row["topic"]))


def record(entry: Entry, batch: Batch) -> None:
    """Write the entry of a batch, once."""
    now = datetime.now(UTC)
    rows = [{name: _utc(value) for name, value in {**row, "recorded_at": now}.items()} for row in entry]
    append_once(folder(batch.settings, batch.job), pa.Table.from_pylist(rows, _schema()), batch.application, batch.id)
    failpoint("after ops.ledger")


def _utc(value: Any) -> Any:
    """Give the session's times, which are UTC without saying so, their zone."""
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value


def entries(settings: Settings, jobs: Iterable[str] | None = None) -> Entry:
    """Read the ledger: all jobs' folders, or those named, in the order in which batches were done."""
    root = settings.warehouse / "ops" / "ledger"
    names = jobs if jobs is not None else sorted(path.name for path in root.glob("*"))
    found: Entry = []
    for name in names:
        path = folder(settings, name)
        if deltalake.DeltaTable.is_deltatable(str(path)):
            # One thread: with more, the process now and then aborts at its end.
            found += deltalake.DeltaTable(str(path)).to_pyarrow_dataset().to_table(use_threads=False).to_pylist()
    return sorted(found, key=lambda row: (row["job"], row["generation"], row["epoch"], row["batch"]))


def landed_up_to(settings: Settings, job: str, generation: int) -> Ends:
    """Give, for each partition, the offset after the last one the ledger has."""
    ends: Ends = {}
    for row in entries(settings, [job]):
        if row["generation"] == generation:
            place = (row["topic"], row["partition"])
            ends[place] = max(ends.get(place, 0), row["to_offset"])
    return ends


def folder(settings: Settings, job: str) -> Path:
    """Say where a job's part of the ledger is."""
    return table_named("ops.ledger").path(settings.warehouse) / job


def _schema() -> pa.Schema:
    return pa.schema([(name, _ARROW[column.type]) for name, column in table_named("ops.ledger").columns.items()])
