"""A job is a value: its inputs, its outputs, and how it writes one micro-batch."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Literal

from pyspark.sql import DataFrame

import streaming
from config.errors import LakehouseError
from config.settings import nearest
from lake.batch import Batch
from lake.ordering import Order

LOG = "log"
"""The key of the records among the inputs of a job that reads topics."""


@dataclass(frozen=True)
class Query:
    """What Spark computes before a micro-batch is written."""

    transform: Callable[[Mapping[str, DataFrame]], DataFrame] | None = None
    """Input tables by name -> one frame; the same function serves streams and bounded tables."""

    output_mode: Literal["append", "update"] = "append"
    """Emit rows once they are final (append), or each time they change (update)."""


@dataclass(frozen=True)
class Bounded:
    """Extra facts for a computation over bounded tables (history, batch layer, closing, comparison)."""

    pick_first_by: Order = ()
    """If the transformation returns several rows of one key: the order whose first row is kept."""

    late_parts: Mapping[str, str] = field(default_factory=dict, hash=False)
    """By total, the column that holds its late part, if the job handles late rows."""

    max_event_gap: timedelta | None = timedelta(0)
    """How far apart two events of different days can be and still count in one row; None if unbounded."""

    reach: timedelta | None = None
    """How long before a row's `final_at` the earliest event that counts in it can lie, except by `starts_at`.

    A stream that starts after its history reads this much of its inputs; None: all of it.
    """

    starts_at: str = ""
    """SQL: the earliest event time that counts in a row, if a row can be arbitrarily long, as a session can."""


@dataclass(frozen=True)
class Provenance:
    """Which events a row comes from, as SQL over a row `r` of the table and an event `e` of an input table."""

    row_contains_event: str = "false"
    row_affected_by_event: str = ""
    """Rows that an event may change without counting in them, as with ranks; empty: only rows that contain it."""

    shared_columns: tuple[str, ...] = ()
    """Columns that have the same value in a row and in all events that it depends on; a comparison that recomputes
    rows reads only these events."""


@dataclass(frozen=True)
class Job:
    """A streaming query; its name is also the name of its checkpoint, its lock and its label in all output."""

    name: str
    role: str
    version: int
    writes: tuple[str, ...]
    process: Callable[[Batch], None]
    """Writes one micro-batch, with one action on its rows: a second action would compute the state twice."""

    topics: tuple[str, ...] = ()
    """Kafka topics that it reads. A job reads topics or tables, not both."""

    reads: tuple[str, ...] = ()
    """Tables that it reads commit by commit, each with a watermark."""

    handles_late: bool = False
    """Whether it can count late rows, or merge them into its windows (setting `streaming.late`)."""

    query: Query = field(default_factory=Query)
    bounded: Bounded = field(default_factory=Bounded)
    provenance: Provenance = field(default_factory=Provenance)

    module: str = ""
    """Where it is defined; set by discovery."""

    def apply(self, tables: Mapping[str, DataFrame]) -> DataFrame:
        """Apply the job's transformation to its input tables."""
        return self.query.transform(tables) if self.query.transform else tables[self.reads[0]]


@cache
def jobs() -> dict[str, Job]:
    """Discover every job: each module under streaming/ that has a function `job()`."""
    found = {}
    for module in pkgutil.walk_packages([str(Path(streaming.__file__).parent)], "streaming."):
        if not module.ispkg and module.name.rpartition(".")[2] != "commands":
            define = getattr(importlib.import_module(module.name), "job", None)
            if callable(define):
                job = replace(define(), module=module.name)
                found[job.name] = job
    return found


def in_stages(chosen: list[Job]) -> list[list[Job]]:
    """Order jobs by data flow: each stage reads only what earlier stages write."""
    stages: list[list[Job]] = []
    left = list(chosen)
    while left:
        unwritten = {table for job in left for table in job.writes}
        ready = [job for job in left if not unwritten & set(job.reads)]
        stages.append(ready)
        left = [job for job in left if job not in ready]
    return stages


def downstream(chosen: list[Job]) -> list[Job]:
    """Add all jobs that depend on what the given ones write; return them in data-flow order."""
    found = {job.name for job in chosen}
    written = {table for job in chosen for table in job.writes}
    for stage in in_stages(list(jobs().values())):
        for job in stage:
            if job.name in found or written & set(job.reads):
                found.add(job.name)
                written |= set(job.writes)
    return [job for stage in in_stages(list(jobs().values())) for job in stage if job.name in found]


def job_named(name: str) -> Job:
    """Return a job by name, or suggest the nearest name."""
    if name not in jobs():
        raise LakehouseError(f"There is no job '{name}': {nearest(name, list(jobs()))}", "lakehouse stream list")
    return jobs()[name]
