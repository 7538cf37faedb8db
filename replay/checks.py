"""Checks: what must hold before a replay is served; `verify` runs all of them, and `promote` runs them again."""

from collections.abc import Iterator, Sequence
from typing import Any

from config.errors import LakehouseError
from config.settings import Settings
from lake import generations
from lake.location import Location, table_location
from replay.manifest import Replay
from streaming.code_version import code_version
from streaming.dropped_rows import dropped_rows
from streaming.job import Job, jobs


def refuse_unfit(settings: Settings, replay: Replay, built_by: Sequence[Job]) -> None:
    """Raise an error if a replay can never be served as it is, whatever its rows are."""
    number = replay.generation
    if replay.state == "running":
        raise LakehouseError(f"Replay {number} is not finished.", f"lakehouse replay run --resume {number}")
    refuse_other_code(replay, built_by)
    live = generations.live(settings)
    for name in _inputs(replay):
        if live[name] != replay.generation_by_table[name]:
            raise LakehouseError(
                f"Generation {number} was built from generation {replay.generation_by_table[name]} of {name}; "
                f"generation {live[name]} is served now.",
                f"lakehouse replay drop {number}   (then: lakehouse replay run)",
            )
    refuse_drops(settings, replay, built_by)


def refuse_drops(settings: Settings, replay: Replay, built_by: Sequence[Job]) -> None:
    """Raise an error if Spark has dropped rows of a replay, or of a table that it reads."""
    for error in drops(settings, replay, built_by):
        raise error


def drops(settings: Settings, replay: Replay, built_by: Sequence[Job]) -> Iterator[LakehouseError]:
    """List the errors that name rows that Spark has dropped of a replay, or of a table that it reads."""
    read_by_it = {name for job in built_by for name in job.reads}
    for job in jobs().values():
        if job.name in replay.jobs or read_by_it & set(job.writes):
            error = dropped_rows(job, settings, replay.target)
            yield from [error] if error else []


def refuse_other_code(replay: Replay, built_by: Sequence[Job]) -> None:
    """Raise an error if a job's code is not the code with which the replay began."""
    changed = [job.name for job in built_by if job.module and replay.code.get(job.name) != code_version(job)]
    if changed:
        raise LakehouseError(
            f"Other code built generation {replay.generation}: {', '.join(changed)} has changed since.",
            "Restore that code, or build it again: "
            f"lakehouse replay drop {replay.generation}   (then: lakehouse replay run)",
        )


def state_of(settings: Settings, replay: Replay) -> dict[str, Any]:
    """Identify what a certificate is about: each table of the replay as it is, and the tables that are served.

    A replay's own tables must not change at all, so their version counts. Live jobs keep writing to the served tables
    between verify and promote; that adds rows to what was compared and takes none away, so only their generation and
    table id count.
    """
    own = {name: table_location(settings, name, replay.generation) for name in replay.tables}
    served = {name: table_location(settings, name, number) for name, number in generations.live(settings).items()}
    return {
        "tables": {name: {"id": _id(path), "version": _version(path)} for name, path in sorted(own.items())},
        "served": {name: {"generation": path.name, "id": _id(path)} for name, path in sorted(served.items())},
    }


def _inputs(replay: Replay) -> list[str]:
    """List the tables that a replay may have read and does not build: those of silver."""
    return [name for name in replay.generation_by_table if name not in replay.tables and name.startswith("silver.")]


def _id(path: Location) -> str | None:
    return str(path.table().metadata().id) if path.is_table() else None


def _version(path: Location) -> int | None:
    return path.table().version() if path.is_table() else None
