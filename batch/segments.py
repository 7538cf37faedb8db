"""Segments: the rows of a batch table by day and run -> what a publication names, and a run can leave as it is.

A run only ever adds rows, each with the run that computed it and the segment it lies in. Which of them are served is
said elsewhere, in one commit; so a run that fails, or is killed, has changed nothing that anyone reads.
"""

from collections.abc import Iterable, Mapping
from datetime import date
from functools import reduce
from operator import or_
from pathlib import Path

import deltalake
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from config.declarations import Table, table_named
from config.failpoints import failpoint
from config.settings import Settings
from lake.tables import columns

RUN, SEGMENT = "run", "segment"
# The one segment of a table that is not kept by days.
WHOLE = date(1970, 1, 1)
Segments = dict[date, str]
"""By segment, the run whose rows count."""


def path(settings: Settings, name: str) -> Path:
    """Say where the batch layer keeps its form of a table."""
    return settings.warehouse / "batch" / name


def by_days(table: Table) -> bool:
    """Tell whether a table is kept by days of event time; others are small, and one segment."""
    return bool(table.partitioned_by)


def segment_of(table: Table) -> Column:
    """Say which segment a row lies in."""
    return F.col(table.partitioned_by[0]) if table.partitioned_by else F.lit(WHOLE)


def write(rows: DataFrame, name: str, run: str, settings: Settings, segment: Column | None = None) -> None:
    """Add the rows of a run; nobody sees them until they are published."""
    table = table_named(name)
    lies_in = segment_of(table) if segment is None else segment
    (
        rows.select(*columns(table), lies_in.alias(SEGMENT), F.lit(run).alias(RUN))
        .write.format("delta")
        .mode("append")
        .partitionBy(SEGMENT, RUN)
        .option("mergeSchema", True)
        .save(str(path(settings, name)))
    )
    failpoint(f"after batch {name}")


def written(settings: Settings, name: str, run: str) -> set[date]:
    """Name the segments that a run has rows in."""
    where = str(path(settings, name))
    if not deltalake.DeltaTable.is_deltatable(where):
        return set()
    parts = deltalake.DeltaTable(where).partitions(file_pruning_predicate=[(RUN, "=", run)])
    return {date.fromisoformat(str(part[SEGMENT])) for part in parts}


def read(spark: SparkSession, settings: Settings, name: str, segments: Mapping[date, str]) -> DataFrame:
    """Read the rows that count, as the table itself has them."""
    table = table_named(name)
    if not segments:
        return spark.createDataFrame([], table.ddl)
    rows = spark.read.format("delta").load(str(path(settings, name))).filter(_among(segments)).drop(SEGMENT, RUN)
    return rows.withColumn("valid_to", F.expr(table.valid_to)) if table.valid_to else rows


def _among(segments: Mapping[date, str]) -> Column:
    """Write the segments that count as a condition by which whole folders are passed over."""
    by_run: dict[str, list[date]] = {}
    for segment, run in segments.items():
        by_run.setdefault(run, []).append(segment)
    found = F.lit(False)
    for run, days in by_run.items():
        found = found | ((F.col(RUN) == run) & F.col(SEGMENT).isin(days))
    return found


def rows_of(segments: Mapping[date, str]) -> pc.Expression:
    """Write the segments that count as who reads without Spark takes them."""
    return reduce(
        or_,
        ((pc.field(SEGMENT) == segment) & (pc.field(RUN) == run) for segment, run in segments.items()),
        pc.scalar(False),
    )


def only(segments: Mapping[date, str], days: Iterable[date] | None) -> Segments:
    """Take the segments of some days, or all of them."""
    wanted = None if days is None else set(days)
    return {segment: run for segment, run in segments.items() if wanted is None or segment in wanted}
