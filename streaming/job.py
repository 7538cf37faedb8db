"""A job is a value: what it reads, what it writes, and what it does with one micro-batch."""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
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

    @property
    def resumes(self) -> bool:
        """Tell whether it is the first after a reset: what an unfinished batch before it wrote may be there."""
        return self.epoch > 1 and self.id == 0


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
