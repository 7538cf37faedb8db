"""A job is a value: what it reads, what it writes, and what it does with one micro-batch."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from pyspark.sql import DataFrame

import streaming
from config.errors import LakehouseError
from config.settings import Settings, nearest


@dataclass(frozen=True)
class Batch:
    """One micro-batch: its rows, and its place in the history of the job."""

    rows: DataFrame
    job: str
    id: int
    epoch: int
    generation: int
    settings: Settings

    landed: Mapping[str, int] = field(default_factory=dict)
    """By topic, the last offset that an unfinished batch before a reset may have written already."""

    @property
    def application(self) -> str:
        """Name the writer to Delta; with the epoch in it, a new checkpoint is not taken for the old one."""
        return f"{self.job}/g{self.generation}/e{self.epoch}"


@dataclass(frozen=True)
class Job:
    """A streaming query, named after what it does; its name is its checkpoint, its lock and its label everywhere."""

    name: str
    role: str
    version: int
    topics: tuple[str, ...]
    writes: tuple[str, ...]
    process: Callable[[Batch], None]


@cache
def jobs() -> dict[str, Job]:
    """Find every job: each module under streaming/ that defines one in `job()`."""
    found = {}
    for module in pkgutil.walk_packages([str(Path(streaming.__file__).parent)], "streaming."):
        if not module.ispkg and module.name.rpartition(".")[2] != "commands":
            define = getattr(importlib.import_module(module.name), "job", None)
            if define:
                job = define()
                found[job.name] = job
    return found


def job_named(name: str) -> Job:
    """Find a job by its name, or say which name was meant."""
    if name not in jobs():
        raise LakehouseError(f"There is no job '{name}': {nearest(name, list(jobs()))}", "lakehouse stream list")
    return jobs()[name]
