"""The manifest: what a replay builds, from what, by which logic, and how far it has come."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal

from config.errors import LakehouseError
from config.settings import Settings
from lake import generations
from lake.generations import Source, TableGenerations
from lake.location import Location, storage
from streaming.code_version import code_version
from streaming.job import Job, job_named

State = Literal["running", "built", "verified", "dropped"]
Mode = Literal["bounded", "stream"]
"""How jobs that read tables process history: in one bounded pass, or as a stream from the first commit."""


@dataclass(frozen=True)
class Replay:
    """One replay; its generation is its name."""

    generation: int
    jobs: list[str]
    source: Source
    starting: str
    versions: dict[str, int]
    code: dict[str, str] = field(default_factory=dict)
    """The code version of every job; a replay is resumed, verified and promoted only with the same code."""

    state: State = "running"
    began: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    seconds: float = 0.0
    records: int = 0
    mode: Mode = "bounded"
    generation_by_table: dict[str, int] = field(default_factory=dict)
    """The generation of every table: its own if it builds the table, else the one served when it started."""

    @property
    def target(self) -> TableGenerations:
        """Return the generations that it reads and writes."""
        return TableGenerations(self.generation_by_table, self.generation, self.source, self.starting)

    @property
    def tables(self) -> list[str]:
        """Return the tables that it builds."""
        return [name for name, number in self.generation_by_table.items() if number == self.generation]

    def jobs_to_run(self) -> list[Job]:
        """Return the jobs that build them."""
        return [job_named(name) for name in self.jobs]


def folder(settings: Settings, generation: int) -> Location:
    """Return the folder of a replay's manifest and certificate."""
    return storage(settings) / "replays" / f"g{generation}"


def save(settings: Settings, replay: Replay) -> None:
    """Write the manifest, completely or not at all."""
    (folder(settings, replay.generation) / "manifest.json").write(json.dumps(asdict(replay), indent=1))


def replays(settings: Settings) -> list[Replay]:
    """List all replays by generation, dropped ones included."""
    folders = (storage(settings) / "replays").children("g*")
    hint = "Its tables stay as they are, but it cannot be continued or promoted. Remove it: rm -r"
    found = [(each / "manifest.json").read_json(f"{hint} '{each}'") for each in folders]
    return sorted((Replay(**values) for values in found if values is not None), key=lambda each: each.generation)


def replay_of(settings: Settings, generation: int) -> Replay:
    """Return a replay, or raise an error that lists those that exist."""
    found = {each.generation: each for each in replays(settings)}
    if generation not in found or found[generation].state == "dropped":
        known = ", ".join(str(number) for number, each in found.items() if each.state != "dropped") or "none yet"
        raise LakehouseError(
            f"There is no replay of generation {generation}; there are: {known}.", "lakehouse replay list"
        )
    return found[generation]


def interrupted(settings: Settings, generation: int) -> Replay:
    """Return an interrupted replay; a finished one cannot be resumed, because its certificate would not hold."""
    found = replay_of(settings, generation)
    if found.state != "running":
        after = {"built": f"lakehouse replay verify {generation}", "verified": f"lakehouse replay promote {generation}"}
        raise LakehouseError(
            f"Replay {generation} was not interrupted: it is {found.state}.",
            f"{after[found.state]}   (newer records are landed once it is served)",
        )
    return found


def new(settings: Settings, jobs: list[Job], source: Source, starting: str, mode: Mode = "bounded") -> Replay:
    """Create the manifest of a replay in the next generation; tables that the jobs only read stay the served ones."""
    served = generations.live(settings)
    tables = [name for job in jobs for name in job.writes if name in served]
    number = generations.unused(settings)
    return Replay(
        generation=number,
        jobs=[job.name for job in jobs],
        source=source,
        starting=starting,
        mode=mode,
        versions={job.name: job.version for job in jobs},
        code={job.name: code_version(job) for job in jobs if job.module},
        generation_by_table=served | dict.fromkeys(tables, number),
    )


def drop(settings: Settings, replay: Replay, refresh: Callable[[], None]) -> int:
    """Remove the tables, checkpoints and ledger of a generation; return the bytes freed.

    refresh: updates the readers' views before the tables are removed, so that no view names them.
    """
    served = generations.live(settings)
    if any(served[name] == replay.generation for name in replay.tables):
        raise LakehouseError(
            f"Generation {replay.generation} is served: it cannot be dropped.", "lakehouse replay rollback   (first)"
        )

    def before_removal() -> None:
        refresh()
        save(settings, replace(replay, state="dropped"))

    return generations.remove(settings, replay.tables, replay.generation, before_removal)
