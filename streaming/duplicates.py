"""Copies of events: which records repeat an event that landed before, and which reuse its id for another.

An event is known by its topic, its id and the hour of its event time (the horizon, configurable). That is an
equivalence, so the answer is the same however the log was cut into batches; and it bounds the search: only the
stretches that a batch touches are looked up in silver, never the history (docs/decisions/0005).
"""

from collections.abc import Iterable, Mapping

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from config.declarations import Table, table_named
from streaming.job import Batch
from streaming.parsing import Contract
from streaming.tables import read

Ranges = list[tuple[int, int]]
LATE = "silver.late"
IDENTITY = ("topic", "event_id", "stretch")
MOST_RANGES = 50
LANDED = ("event_id", "event_time", "partition", "offset", "content_hash")
COPY = (*IDENTITY, "landed", "partition", "offset", "content_hash")


def with_stretch(rows: DataFrame, horizon_seconds: int) -> DataFrame:
    """Give each row the number of the horizon-long stretch that its event time lies in."""
    return rows.withColumn("stretch", F.expr(f"unix_seconds(event_time) div {horizon_seconds}"))


def landed_copies(parsed: DataFrame, promised: Iterable[Contract], seen: Mapping[str, Row], batch: Batch) -> DataFrame:
    """Read what landed before, in silver or as late, in the stretches of event time that each topic touches now."""
    horizon = batch.settings.streaming.dedup_horizon_minutes * 60
    stretches = {topic: _ranges(row.stretches) for topic, row in seen.items()}
    tables = {c.topic.name: c.table for c in promised if c.topic.name in seen}
    small = sum(row.records for row in seen.values()) <= batch.settings.streaming.small_append_rows
    look_up = _by_arrow if small else _by_spark
    found = look_up(parsed, tables, stretches, horizon, batch)
    return with_stretch(found, horizon).withColumn("landed", F.lit(True)).select(*COPY)


def _by_spark(
    parsed: DataFrame, tables: Mapping[str, Table], stretches: Mapping[str, Ranges], horizon: int, batch: Batch
) -> DataFrame:
    """Read all rows of the stretches; the match with a large batch is a join like any other."""
    spark = parsed.sparkSession
    within = {topic: _sql(ranges, horizon) for topic, ranges in stretches.items()}
    late = read(spark, LATE, batch.settings.warehouse, batch.generation).filter("duplicate_of is null")
    found = late.filter(" or ".join(f"(topic = '{topic}' and ({test}))" for topic, test in within.items()))
    found = found.select("topic", *LANDED)
    for topic, table in tables.items():
        landed = read(spark, table.name, batch.settings.warehouse, batch.generation).filter(within[topic])
        found = found.unionByName(landed.select(F.lit(topic).alias("topic"), *LANDED))
    return found


def _by_arrow(
    parsed: DataFrame, tables: Mapping[str, Table], stretches: Mapping[str, Ranges], horizon: int, batch: Batch
) -> DataFrame:
    """Read only the rows whose id a small batch has: milliseconds, where planning five Delta scans takes seconds."""
    ids = parsed.select("event_id").dropna().toArrow().column("event_id")
    found = []
    for topic, table in tables.items():
        within = _arrow(stretches[topic], horizon)
        first = pc.field("duplicate_of").is_null() & (pc.field("topic") == topic)
        for path, which in ((table, within), (table_named(LATE), within & first)):
            landed = deltalake.DeltaTable(str(path.path(batch.settings.warehouse, batch.generation)))
            rows = landed.to_pyarrow_dataset().to_table(columns=list(LANDED), filter=which)
            rows = rows.filter(pc.is_in(rows["event_id"], value_set=ids))
            found.append(rows.append_column("topic", pa.array([topic] * len(rows), pa.string())))
    # In one chunk: of a table in several, pyspark 4.1 loses the rows after the first chunk of each slice.
    return parsed.sparkSession.createDataFrame(pa.concat_tables(found, promote_options="permissive").combine_chunks())


def first_copies(valid: DataFrame, landed: DataFrame) -> DataFrame:
    """Find the first copy of every event that there is more than once: one row for each such event."""
    copies = valid.withColumn("landed", F.lit(False)).select(*COPY).unionByName(landed)
    # What landed before comes first; then the order of the log.
    first = F.min(F.struct(~F.col("landed"), "partition", "offset", "content_hash")).alias("first")
    return copies.groupBy(*IDENTITY).agg(F.count("*").alias("copies"), first).filter("copies > 1").drop("copies")


def _ranges(stretches: Iterable[int | None]) -> Ranges:
    """Join neighbouring stretches; of very many, take all between the first and the last, and match exactly later."""
    ranges: Ranges = []
    for stretch in sorted(s for s in stretches if s is not None):
        if ranges and ranges[-1][1] == stretch:
            ranges[-1] = (ranges[-1][0], stretch + 1)
        else:
            ranges.append((stretch, stretch + 1))
    return ranges if len(ranges) <= MOST_RANGES else [(ranges[0][0], ranges[-1][1])]


def _sql(ranges: Ranges, horizon: int) -> str:
    """Write ranges of event time as a condition by which Delta can skip files."""
    tests = [
        f"(event_time >= timestamp_seconds({low * horizon}) and event_time < timestamp_seconds({high * horizon}))"
        for low, high in ranges
    ]
    return " or ".join(tests) or "false"


def _arrow(ranges: Ranges, horizon: int) -> pc.Expression:
    """Write ranges of event time as a condition by which deltalake can skip files."""
    time, found = pc.field("event_time"), pc.scalar(False)
    for low, high in ranges:
        since, until = (pa.scalar(end * horizon * 1_000_000, pa.timestamp("us", "UTC")) for end in (low, high))
        found = found | ((time >= since) & (time < until))
    return found
