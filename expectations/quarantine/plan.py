"""The plan of a redrive, written down before anything is changed: killed in between, the next redrive finishes it.

What it would do cannot be told again later: rules may have changed by then, and silver has some of the records already.
"""

from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from config.settings import Settings


@dataclass(frozen=True)
class RedrivePlan:
    """Records that leave quarantine, each with its row and the place it goes to."""

    id: str
    rows: pa.Table

    @property
    def application(self) -> str:
        """Name the redrive to Delta: a table that has seen it passes over the same rows."""
        return f"redrive/{self.id}"


def draw_up(settings: Settings, generation: int, rows: pa.Table) -> RedrivePlan:
    """Write a plan down, whole or not at all."""
    plan, path = RedrivePlan(uuid4().hex, rows), _path(settings, generation)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    with pa.OSFile(str(draft), "wb") as file, pa.ipc.new_file(file, _labelled(rows, plan.id).schema) as writer:
        writer.write_table(rows)
    draft.replace(path)
    return plan


def unfinished(settings: Settings, generation: int) -> RedrivePlan | None:
    """Read the plan of a redrive that has not come to its end, if there is one."""
    path = _path(settings, generation)
    if not path.exists():
        return None
    rows = pa.ipc.open_file(path.read_bytes()).read_all()
    return RedrivePlan(rows.schema.metadata[b"id"].decode(), rows)


def done(settings: Settings, generation: int) -> None:
    """Remove the plan: all of it has happened."""
    _path(settings, generation).unlink()


def _labelled(rows: pa.Table, id_: str) -> pa.Table:
    return rows.replace_schema_metadata({"id": id_})


def _path(settings: Settings, generation: int) -> Path:
    return settings.home / "redrive" / f"g{generation}.arrow"
