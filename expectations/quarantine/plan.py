"""The plan of a redrive, written down before anything is changed: killed in between, the next redrive finishes it.

What it would do cannot be told again later: rules may have changed by then, and silver has some of the records already.
"""

from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa

from config.settings import Settings
from lake.location import Location, storage


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
    plan = RedrivePlan(uuid4().hex, rows)
    content = pa.BufferOutputStream()
    with pa.ipc.new_file(content, _labelled(rows, plan.id).schema) as writer:
        writer.write_table(rows)
    _location(settings, generation).write(content.getvalue().to_pybytes())
    return plan


def unfinished(settings: Settings, generation: int) -> RedrivePlan | None:
    """Read the plan of a redrive that has not come to its end, if there is one."""
    content = _location(settings, generation).read_bytes()
    if content is None:
        return None
    rows = pa.ipc.open_file(content).read_all()
    return RedrivePlan(rows.schema.metadata[b"id"].decode(), rows)


def done(settings: Settings, generation: int) -> None:
    """Remove the plan: all of it has happened."""
    _location(settings, generation).remove()


def _labelled(rows: pa.Table, id_: str) -> pa.Table:
    return rows.replace_schema_metadata({"id": id_})


def _location(settings: Settings, generation: int) -> Location:
    return storage(settings) / "redrive" / f"g{generation}.arrow"
