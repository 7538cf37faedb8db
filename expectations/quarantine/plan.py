"""The plan of a redrive, stored before any table changes: after a crash the next redrive finishes it.

A plan cannot be recomputed later: rules may have changed, and silver may already contain some of the records.
"""

from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa

from config.files import DamagedFileError
from config.settings import Settings
from lake.location import Location, storage


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
    plan = RedrivePlan(uuid4().hex, rows)
    content = pa.BufferOutputStream()
    with pa.ipc.new_file(content, _labelled(rows, plan.id).schema) as writer:
        writer.write_table(rows)
    _location(settings, generation).write(content.getvalue().to_pybytes())
    return plan


def unfinished(settings: Settings, generation: int) -> RedrivePlan | None:
    """Read the plan of an unfinished redrive, if there is one."""
    content = _location(settings, generation).read_bytes()
    if content is None:
        return None
    try:
        rows = pa.ipc.open_file(content).read_all()
    except pa.ArrowInvalid:
        raise DamagedFileError(
            file := _location(settings, generation),
            f"It is written before any row moves: rm '{file}', then: lakehouse check ledger",
        ) from None
    return RedrivePlan(rows.schema.metadata[b"id"].decode(), rows)


def done(settings: Settings, generation: int) -> None:
    """Remove the plan after all its steps."""
    _location(settings, generation).remove()


def _labelled(rows: pa.Table, id_: str) -> pa.Table:
    return rows.replace_schema_metadata({"id": id_})


def _location(settings: Settings, generation: int) -> Location:
    return storage(settings) / "redrive" / f"g{generation}.arrow"
