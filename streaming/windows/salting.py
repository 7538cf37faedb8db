"""Salting: the events of a hot key -> several groups in Spark's state, summed again when a batch is written.

Spark does not support a second aggregation in update mode, so the second stage runs on each batch, on the totals of the
first. It needs every group of a key, also groups without new events: each event is copied into all groups of its key
and counts in one of them. Before the shuffle, Spark combines them into one row per group, so they cost no transfer.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from config.errors import LakehouseError
from config.settings import Settings
from lake.batch import Batch
from streaming.job import Job
from streaming.job import jobs as all_jobs


@dataclass(frozen=True)
class Salt:
    """The number of groups over which the events of a key are spread; one group adds nothing to the plan."""

    groups: int = 1

    def spread(self, events: DataFrame) -> DataFrame:
        """Copy each event into all groups of its key; the hash of its id selects the group in which it counts."""
        if self.groups == 1:
            return events
        # The number is part of the type: Spark continues only with state of the same type, and so never with fewer
        # groups than the state has; their totals would be lost.
        kind = f"decimal({self.groups}, 0)"
        salts = F.array(*(F.lit(group).cast(kind) for group in range(self.groups)))
        own = F.pmod(F.xxhash64("event_id"), F.lit(self.groups)).cast(kind)
        return events.withColumn("own_salt", own).withColumn("salt", F.explode(salts))

    @property
    def key(self) -> list[str]:
        """Return the columns to group by in addition to the key."""
        return [] if self.groups == 1 else ["salt"]

    def count(self) -> Column:
        """Count the events of a group."""
        return F.count("*") if self.groups == 1 else F.count_if(F.col("salt") == F.col("own_salt"))

    def sum(self, column: str) -> Column:
        """Sum a column over the events of a group."""
        if self.groups == 1:
            return F.sum(column)
        return F.sum(F.when(F.col("salt") == F.col("own_salt"), F.col(column)))


UNSALTED = Salt()


@dataclass(frozen=True)
class Saltable:
    """A job's transformation that can spread its keys."""

    transform: Callable[[Mapping[str, DataFrame], Salt], DataFrame]
    salt: Salt = UNSALTED

    def __call__(self, tables: Mapping[str, DataFrame]) -> DataFrame:
        """Transform a job's input tables."""
        return self.transform(tables, self.salt)


def collect_unsalted(batch: Batch, measures: Iterable[str]) -> pa.Table:
    """Collect a batch's rows, with the groups of each key summed: the second stage of the aggregation."""
    rows = batch.rows.toArrow()
    if batch.settings.streaming.salted.get(batch.job, 1) == 1:
        return rows
    measures = list(measures)
    keys = [name for name in rows.column_names if name not in measures]
    sums = rows.group_by(keys, use_threads=False).aggregate([(name, "sum") for name in measures])
    return sums.rename_columns([*keys, *measures]).select(rows.column_names)


def as_configured(jobs: list[Job], settings: Settings) -> list[Job]:
    """Salt the jobs that the settings name; raise an error for a job that cannot be salted."""
    able = {name: job.query.transform for name, job in all_jobs().items() if isinstance(job.query.transform, Saltable)}
    for name in settings.streaming.salted:
        if name not in able:
            raise LakehouseError(
                f"streaming.salted: '{name}' cannot be salted; these can: {', '.join(able)}.",
                "Correct streaming.salted in the settings.",
            )
    salts = {name: Salt(groups) for name, groups in settings.streaming.salted.items()}
    return [
        replace(job, query=replace(job.query, transform=replace(able[job.name], salt=salts[job.name])))
        if job.name in salts
        else job
        for job in jobs
    ]
