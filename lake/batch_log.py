"""The batch log, ops.batches: what each micro-batch of a table-reading job wrote and dropped, and its watermark."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from config.declarations import table_named
from config.failpoints import failpoint
from config.settings import Settings
from lake.batch import Batch
from lake.location import Location, table_location
from lake.tables import append_once, arrow_schema, read_arrow

TABLE = "ops.batches"


def record_batch(batch: Batch, written: int) -> None:
    """Append a batch to the log, once."""
    row = {
        "job": batch.job,
        "generation": batch.generation,
        "epoch": batch.epoch,
        "batch": batch.id,
        "written": written,
        "dropped": batch.dropped(),
        "closed_until": batch.closed_until,
        "by_request": batch.part == "close",
        "recorded_at": datetime.now(UTC),
    }
    rows = pa.Table.from_pylist([row], arrow_schema(table_named(TABLE)))
    append_once(folder(batch.settings, batch.job, batch.generation), rows, batch.txn_app_id, batch.id)
    failpoint("after ops.batches")


def closed_until(settings: Settings, job: str, generation: int = 1) -> datetime | None:
    """Return the event time before which a job's rows are final, by its recorded batches."""
    return max(
        (row["closed_until"] for row in _recorded(settings, job, generation) if row["closed_until"]), default=None
    )


def last_batch(settings: Settings, job: str, generation: int = 1) -> dict[str, Any] | None:
    """Return the last recorded micro-batch of a job."""
    return max(
        (row for row in _recorded(settings, job, generation) if not row["by_request"]),
        key=lambda row: int(row["batch"]),
        default=None,
    )


def dropped(settings: Settings, job: str, generation: int, epoch: int) -> int:
    """Count the rows that Spark has dropped in an epoch of a job; logs of older releases have no such column."""
    rows = read_arrow(folder(settings, job, generation)).to_pylist()
    return sum(row.get("dropped") or 0 for row in rows if row["epoch"] == epoch)


def last_request(settings: Settings, job: str, generation: int = 1) -> dict[str, Any] | None:
    """Return the request (`stream run --close`) that made the most rows of a job final."""
    return max(
        (row for row in _recorded(settings, job, generation) if row["by_request"] and row["closed_until"]),
        key=lambda row: row["closed_until"],
        default=None,
    )


def _recorded(settings: Settings, job: str, generation: int) -> list[dict[str, Any]]:
    """Read the batches of a job's last epoch: watermarks of earlier epochs no longer hold."""
    rows = read_arrow(folder(settings, job, generation)).to_pylist()
    epoch = max((row["epoch"] for row in rows), default=0)
    return [row for row in rows if row["epoch"] == epoch]


def folder(settings: Settings, job: str, generation: int) -> Location:
    """Return the location of a job's log; each job and generation has its own, as they are written concurrently."""
    return table_location(settings, TABLE) / f"g{generation}" / job
