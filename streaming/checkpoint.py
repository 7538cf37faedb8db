"""Checkpoints and their epochs: where a job goes on, and why a lost checkpoint is never passed over.

A job's checkpoint is `checkpoints/g<generation>/<job>/e<epoch>`. Delta remembers, for each epoch, the last batch
written, so an epoch may never begin twice: a lost checkpoint is refused, and `reset` begins the next epoch where the
ledger says the last whole batch ended.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import deltalake

from config.declarations import table_named
from config.errors import LakehouseError
from config.settings import Settings
from streaming import ledger
from streaming.job import Job


@dataclass(frozen=True)
class Checkpoint:
    """Where a job goes on: its epoch, the folder, and the offsets an epoch after a reset begins at."""

    epoch: int
    path: Path
    starting_offsets: str


def open_checkpoint(job: Job, settings: Settings, generation: int = 1) -> Checkpoint:
    """Find the checkpoint of a job, make its first, or refuse because it was lost."""
    folder = _folder(job, settings, generation)
    epoch = _latest_epoch(folder)
    recorded = [row["epoch"] for row in ledger.entries(settings, [job.name]) if row["generation"] == generation]
    begun = epoch is not None and (folder / f"e{epoch}" / "offsets").is_dir()
    if not begun and (max(recorded, default=0) >= (epoch or 1) or (epoch is None and _has_rows(job, settings, generation))):
        raise LakehouseError(
            f"The checkpoint of '{job.name}' is gone, but its tables are not empty: "
            "starting anew would land everything a second time.",
            f"lakehouse stream reset {job.name}   (goes on where its tables end; nothing is lost or doubled)",
        )
    path = folder / f"e{epoch or 1}"
    start = folder / f"e{epoch or 1}.start.json"
    return Checkpoint(epoch or 1, path, start.read_text() if start.exists() else "earliest")


def reset(job: Job, settings: Settings, generation: int = 1) -> Checkpoint:
    """Begin a new epoch where the last whole batch in the ledger ended."""
    folder = _folder(job, settings, generation)
    recorded = [row["epoch"] for row in ledger.entries(settings, [job.name]) if row["generation"] == generation]
    epoch = max([_latest_epoch(folder) or 0, *recorded]) + 1
    ends: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in ledger.landed_up_to(settings, job.name, generation).items():
        ends.setdefault(topic, {})[str(partition)] = offset
    folder.mkdir(parents=True, exist_ok=True)
    from config.declarations import topics

    for name in job.topics:
        # -2 is Kafka's "earliest": nothing of that partition has landed yet.
        ends[name] = {str(p): -2 for p in range(topics()[name].partitions)} | ends.get(name, {})
    (folder / f"e{epoch}.start.json").write_text(json.dumps(ends))
    (folder / f"e{epoch}").mkdir()
    return Checkpoint(epoch, folder / f"e{epoch}", json.dumps(ends))


def _folder(job: Job, settings: Settings, generation: int) -> Path:
    return settings.home / "checkpoints" / f"g{generation}" / job.name


def _latest_epoch(folder: Path) -> int | None:
    return max((int(path.name[1:]) for path in folder.glob("e*") if path.is_dir()), default=None)


def _has_rows(job: Job, settings: Settings, generation: int) -> bool:
    for name in job.writes:
        path = str(table_named(name).path(settings.warehouse, generation))
        if deltalake.DeltaTable.is_deltatable(path) and deltalake.DeltaTable(path).file_uris():
            return True
    return False
