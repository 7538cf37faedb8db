"""The plan of a redrive, stored before any table changes: after a crash the next redrive finishes it.

A plan cannot be recomputed later: rules may have changed, and silver may already contain some of the records.
"""

from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from config.settings import Settings


@dataclass(frozen=True)
class RedrivePlan:
    """The records that leave quarantine, each with its row and its outcome."""

    id: str
    rows: pa.Table

    @property
    def txn_app_id(self) -> str:
        """Return the transaction id for Delta: a table that has committed it skips the same rows."""
        return f"redrive/{self.id}"


def draw_up(settings: Settings, generation: int, rows: pa.Table) -> RedrivePlan:
    """Store a plan atomically."""
    plan, path = RedrivePlan(uuid4().hex, rows), _path(settings, generation)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    with pa.OSFile(str(draft), "wb") as file, pa.ipc.new_file(file, _labelled(rows, plan.id).schema) as writer:
        writer.write_table(rows)
    draft.replace(path)
    return plan


def unfinished(settings: Settings, generation: int) -> RedrivePlan | None:
    """Read the plan of an unfinished redrive, if there is one."""
    path = _path(settings, generation)
    if not path.exists():
        return None
    rows = pa.ipc.open_file(path.read_bytes()).read_all()
    return RedrivePlan(rows.schema.metadata[b"id"].decode(), rows)


def done(settings: Settings, generation: int) -> None:
    """Remove the plan after all its steps."""
    _path(settings, generation).unlink()


def _labelled(rows: pa.Table, id_: str) -> pa.Table:
    return rows.replace_schema_metadata({"id": id_})


def _path(settings: Settings, generation: int) -> Path:
    return settings.home / "redrive" / f"g{generation}.arrow"
