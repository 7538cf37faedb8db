"""The manifest: what a replay builds, from what, by which logic, and how far it has come."""

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from config.declarations import table_named
from config.errors import LakehouseError
from config.files import write_whole
from config.settings import Settings
from lake import generations
from lake.costs import size_of
from lake.generations import Source, TableGenerations
from streaming.job import Job, job_named

State = Literal["running", "built", "verified", "dropped"]


@dataclass(frozen=True)
class Replay:
    """One replay; its generation is its name."""

    generation: int
    jobs: list[str]
    source: Source
    starting: str
    versions: dict[str, int]
    state: State = "running"
    began: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    seconds: float = 0.0
    records: int = 0
    generation_by_table: dict[str, int] = field(default_factory=dict)
    """The generation of every table that it means: its own, and of what it only reads the one served when it began."""

    @property
    def target(self) -> TableGenerations:
        """Say which tables it means."""
        return TableGenerations(self.generation_by_table, self.generation, self.source, self.starting)

    @property
    def tables(self) -> list[str]:
        """Name the tables it builds."""
        return [name for name, number in self.generation_by_table.items() if number == self.generation]

    def jobs_to_run(self) -> list[Job]:
        """Give the jobs that build them."""
        return [job_named(name) for name in self.jobs]


def folder(settings: Settings, generation: int) -> Path:
    """Say where a replay keeps its manifest and its certificate."""
    return settings.home / "replays" / f"g{generation}"


def save(settings: Settings, replay: Replay) -> None:
    """Write the manifest; it is there whole or not at all."""
    write_whole(folder(settings, replay.generation) / "manifest.json", json.dumps(asdict(replay), indent=1))


def replays(settings: Settings) -> list[Replay]:
    """List all replays there were, in their order."""
    files = (settings.home / "replays").glob("g*/manifest.json")
    return sorted((Replay(**json.loads(file.read_text())) for file in files), key=lambda each: each.generation)


def replay_of(settings: Settings, generation: int) -> Replay:
    """Find a replay, or say which there are."""
    found = {each.generation: each for each in replays(settings)}
    if generation not in found or found[generation].state == "dropped":
        known = ", ".join(str(number) for number, each in found.items() if each.state != "dropped") or "none yet"
        raise LakehouseError(
            f"There is no replay of generation {generation}; there are: {known}.", "lakehouse replay list"
        )
    return found[generation]


def interrupted(settings: Settings, generation: int) -> Replay:
    """Find a replay that was killed before its end; one that is built stays as its certificate says."""
    found = replay_of(settings, generation)
    if found.state != "running":
        after = {"built": f"lakehouse replay verify {generation}", "verified": f"lakehouse replay promote {generation}"}
        raise LakehouseError(
            f"Replay {generation} was not broken off: it is {found.state}.",
            f"{after[found.state]}   (what came into the log since is landed once it is served)",
        )
    return found


def new(settings: Settings, jobs: list[Job], source: Source, starting: str) -> Replay:
    """Plan a replay of jobs in the next generation; what they only read stays what is served."""
    served = generations.live(settings)
    tables = [name for job in jobs for name in job.writes if name in served]
    last = max(
        (number for table in generations.replayable_tables() for number in generations.built(settings, table)),
        default=1,
    )
    last = max([last, *(each.generation for each in replays(settings))])
    return Replay(
        generation=last + 1,
        jobs=[job.name for job in jobs],
        source=source,
        starting=starting,
        versions={job.name: job.version for job in jobs},
        generation_by_table=served | dict.fromkeys(tables, last + 1),
    )


def drop(settings: Settings, replay: Replay, refresh: Callable[[], None]) -> int:
    """Remove the tables of a generation and what its jobs remember; give the bytes that are free now.

    refresh: what makes readers' views anew; they must not name a table that goes.
    """
    served = generations.live(settings)
    if any(served[name] == replay.generation for name in replay.tables):
        raise LakehouseError(
            f"Generation {replay.generation} is served: it cannot be dropped.", "lakehouse replay rollback   (first)"
        )
    own = f"g{replay.generation}"
    paths = [table_named(name).path(settings.warehouse, replay.generation) for name in replay.tables]
    for path in paths:
        if path.is_dir():
            (path / generations.DROPPING).touch()
    refresh()
    paths += [settings.home / "checkpoints" / own]
    paths += [table_named(name).path(settings.warehouse) / own for name in ("ops.ledger", "ops.batches")]
    freed = sum(size_of(path) for path in paths)
    save(settings, replace(replay, state="dropped"))
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)
    return freed
