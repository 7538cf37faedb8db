"""Segments: the rows of a batch table by day and run; a publication names which of them are served.

A run only adds rows, each with its run and its segment. Publishing is a separate commit, so a run that fails or is
killed changes nothing that readers see.
"""

from collections.abc import Iterable, Mapping
from datetime import date
from functools import reduce
from operator import or_

import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from config.declarations import Table, table_named
from config.failpoints import failpoint
from config.settings import Settings
from lake.location import Location, warehouse
from lake.tables import columns

RUN, SEGMENT = "run", "segment"
# The only segment of a table that is not kept by days.
WHOLE = date(1970, 1, 1)
Segments = dict[date, str]
"""By segment, the run whose rows are served."""


def path(settings: Settings, name: str) -> Location:
    """Return the location of a table of the batch layer."""
    return warehouse(settings) / "batch" / name


def by_days(table: Table) -> bool:
    """Return whether a table is kept by days of event time; other tables are small and have one segment."""
    return bool(table.partitioned_by)


def segment_of(table: Table) -> Column:
    """Return the segment of a row."""
    return F.col(table.partitioned_by[0]) if table.partitioned_by else F.lit(WHOLE)


def write(rows: DataFrame, name: str, run: str, settings: Settings, segment: Column | None = None) -> None:
    """Append the rows of a run; readers do not see them until they are published."""
    table = table_named(name)
    of_row = segment_of(table) if segment is None else segment
    (
        rows.select(*columns(table), of_row.alias(SEGMENT), F.lit(run).alias(RUN))
        .write.format("delta")
        .mode("append")
        .partitionBy(SEGMENT, RUN)
        .option("mergeSchema", True)
        .save(str(path(settings, name)))
    )
    failpoint(f"after batch {name}")


def written(settings: Settings, name: str, run: str) -> set[date]:
    """Return the segments in which a run has rows."""
    if not path(settings, name).is_table():
        return set()
    parts = path(settings, name).table().partitions(file_pruning_predicate=[(RUN, "=", run)])
    return {date.fromisoformat(str(part[SEGMENT])) for part in parts}


def read(spark: SparkSession, settings: Settings, name: str, segments: Mapping[date, str]) -> DataFrame:
    """Read the given segments with the columns of the table."""
    table = table_named(name)
    if segments:
        rows = spark.read.format("delta").load(str(path(settings, name))).filter(_among(segments)).drop(SEGMENT, RUN)
    else:
        rows = spark.createDataFrame([], table.ddl)  # nothing has landed yet: there may be no table
    return rows.withColumn("valid_to", F.expr(table.valid_to)) if table.valid_to else rows


def _among(segments: Mapping[date, str]) -> Column:
    """Return the filter for some segments; Spark prunes partitions by it."""
    by_run: dict[str, list[date]] = {}
    for segment, run in segments.items():
        by_run.setdefault(run, []).append(segment)
    found = F.lit(False)
    for run, days in by_run.items():
        found = found | ((F.col(RUN) == run) & F.col(SEGMENT).isin(days))
    return found


def rows_of(segments: Mapping[date, str]) -> pc.Expression:
    """Return the same filter for PyArrow."""
    return reduce(
        or_,
        ((pc.field(SEGMENT) == segment) & (pc.field(RUN) == run) for segment, run in segments.items()),
        pc.scalar(False),
    )


def only(segments: Mapping[date, str], days: Iterable[date] | None) -> Segments:
    """Keep the segments of some days, or all of them."""
    wanted = None if days is None else set(days)
    return {segment: run for segment, run in segments.items() if wanted is None or segment in wanted}
