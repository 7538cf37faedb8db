"""A job is a value: what it reads, what it writes, and what it does with one micro-batch."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Literal

from pyspark.sql import DataFrame

import streaming
from config.declarations import table_named
from config.errors import LakehouseError
from config.settings import Settings, nearest

LOG = "log"
"""The name under which a job that reads topics finds the records."""


@dataclass(frozen=True)
class Batch:
    """One micro-batch: its rows, and its place in the history of the job."""

    rows: DataFrame
    job: str
    id: int
    epoch: int
    generation: int
    settings: Settings

    records: int = 0
    """Records of the log in it, by its offsets."""

    closing: bool = False
    """Whether it holds what was still open when someone asked to close it."""

    closed_until: datetime | None = None
    """The watermark: what is final before this moment of event time will not change; none for a job without state."""

    landed: Mapping[str, int] = field(default_factory=dict)
    """By topic, the last offset that may be there already: of an unfinished batch, or of another generation."""

    late_counts: bool = True
    """Whether events that came late are set aside; a replay knows all of history, and has none."""

    archives: bool = True
    """Whether it writes the archive of the log: what is served does, a replay beside it does not."""

    reading: Mapping[str, int] = field(default_factory=dict)
    """The generation of a table that it only reads, where that is another than its own."""

    def generation_of(self, name: str) -> int:
        """Say which generation of a table this batch means."""
        return self.reading.get(name, self.generation)

    def path(self, name: str) -> Path:
        """Say where the table is that this batch means."""
        return table_named(name).path(self.settings.warehouse, self.generation_of(name))

    @property
    def application(self) -> str:
        """Name the writer to Delta; with the epoch in it, a new checkpoint is not taken for the old one."""
        return f"{self.job}/g{self.generation}/e{self.epoch}{'/close' if self.closing else ''}"


@dataclass(frozen=True)
class Job:
    """A streaming query, named after what it does; its name is its checkpoint, its lock and its label everywhere."""

    name: str
    role: str
    version: int
    writes: tuple[str, ...]
    process: Callable[[Batch], None]
    """What it does with the rows of one micro-batch: one action on them, as state must not be computed twice."""

    topics: tuple[str, ...] = ()
    """Topics of the log that it reads."""

    reads: tuple[str, ...] = ()
    """Tables that it follows, commit by commit, each with a watermark; a job reads topics or tables, not both."""

    transform: Callable[[Mapping[str, DataFrame]], DataFrame] | None = None
    """What it makes of its tables, by name: streams in, one stream out; on bounded tables the same, bounded."""

    mode: Literal["append", "update"] = "append"
    """Whether rows come out when they can no longer change, or whenever they do."""

    minds_late: bool = False
    """Whether it can count late rows or merge them into its windows, where settings ask for it."""

    prefers: tuple[tuple[str, str], ...] = ()
    """Where several rows of one key may come out: the order in which the first of them is the one that counts."""

    reach: timedelta | None = timedelta(0)
    """How far apart two events of different days may lie that count in one row; none where there is no bound."""

    counts: str = "false"
    """Which rows r of its table an event e counts in, in SQL."""

    moves: str = ""
    """Which rows it may change besides, as their place depends on others; only those it counts in, if empty."""

    module: str = ""
    """Where it is defined, once it was found."""

    def of(self, tables: Mapping[str, DataFrame]) -> DataFrame:
        """Make of the tables what the job makes of them."""
        return self.transform(tables) if self.transform else tables[self.reads[0]]


@cache
def jobs() -> dict[str, Job]:
    """Find every job: each module under streaming/ that defines one in `job()`."""
    found = {}
    for module in pkgutil.walk_packages([str(Path(streaming.__file__).parent)], "streaming."):
        if not module.ispkg and module.name.rpartition(".")[2] != "commands":
            define = getattr(importlib.import_module(module.name), "job", None)
            if define:
                job = replace(define(), module=module.name)
                found[job.name] = job
    return found


def in_stages(chosen: list[Job]) -> list[list[Job]]:
    """Put jobs in the order in which data flows: each stage reads only what stages before it write."""
    stages: list[list[Job]] = []
    left = list(chosen)
    while left:
        unwritten = {table for job in left for table in job.writes}
        ready = [job for job in left if not unwritten & set(job.reads)]
        stages.append(ready)
        left = [job for job in left if job not in ready]
    return stages


def downstream(chosen: list[Job]) -> list[Job]:
    """Add to jobs all that depend on what they write, in the order in which data flows."""
    found = {job.name for job in chosen}
    written = {table for job in chosen for table in job.writes}
    for stage in in_stages(list(jobs().values())):
        for job in stage:
            if job.name in found or written & set(job.reads):
                found.add(job.name)
                written |= set(job.writes)
    return [job for stage in in_stages(list(jobs().values())) for job in stage if job.name in found]


def job_named(name: str) -> Job:
    """Find a job by its name, or say which name was meant."""
    if name not in jobs():
        raise LakehouseError(f"There is no job '{name}': {nearest(name, list(jobs()))}", "lakehouse stream list")
    return jobs()[name]
