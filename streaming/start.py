"""Start: how the first micro-batches of a job read its input tables, stored next to its checkpoint.

A start that was interrupted is repeated as it began: from the same version of each table, or from the same tail.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Literal

from lake.location import Location

WAY_OUT = "lakehouse stream reset"


@dataclass(frozen=True)
class Start:
    """Where a job's stream starts: at a version of each input table, or after its history, at the tail of the rows."""

    versions: Mapping[str, int] = field(default_factory=dict)
    """By input table, the version from which every commit is read; without history."""

    history: Literal["none", "computing", "computed", "complete"] = "none"
    """How far the history is: computed, or complete, which means that the stream has read the tail too."""

    final_before: datetime | None = None
    """Rows that are final before this event time come from the bounded pass, all others from the stream."""

    tail_from: datetime | None = None
    """The earliest event time that counts in a row of the stream; None if the stream reads all rows."""

    @property
    def interrupted(self) -> bool:
        """Return whether history was begun and is not complete."""
        return self.history in ("computing", "computed")


def load(job_folder: Location, epoch: int) -> Start | None:
    """Read how an epoch starts, or None if it was never recorded."""
    values = _file(job_folder, epoch).read_json(f"{WAY_OUT} {job_folder.name}")
    if values is None:
        return None
    for name in ("final_before", "tail_from"):
        values[name] = datetime.fromisoformat(values[name]) if values[name] else None
    return Start(**values)


def save(job_folder: Location, epoch: int, start: Start) -> None:
    """Record how an epoch starts."""
    values = asdict(start)
    for name in ("final_before", "tail_from"):
        moment: datetime | None = values[name]
        values[name] = moment.astimezone(UTC).isoformat() if moment else None
    _file(job_folder, epoch).write(json.dumps(values, indent=1))


def _file(job_folder: Location, epoch: int) -> Location:
    return job_folder / f"e{epoch}.history.json"
