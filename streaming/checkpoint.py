"""Checkpoints and their epochs: where a job continues, and why a lost checkpoint is an error.

A job's checkpoint is `checkpoints/g<generation>/<job>/e<epoch>`. Delta stores the last batch written in each
epoch, so an epoch may never start twice: a lost checkpoint is an error. For landing, `reset` starts the next epoch
where the last complete batch in the ledger ended; a job that reads tables is rebuilt in a new generation
(streaming/rebuild.py). A log other than the one that was landed before is an error too.
"""

import json
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from config.declarations import table_named
from config.errors import LakehouseError
from config.files import DamagedFileError
from config.kafka import end_offsets
from config.settings import Settings
from lake import ledger, losses
from lake.location import Location, storage, table_location
from streaming import landed_code, start
from streaming.checkpoint_files import ensure_readable, logged
from streaming.code_version import ensure_same_code
from streaming.job import Job
from streaming.landing.archive import by_topic
from streaming.topic_identity import ensure_same_log

_RESET = {
    True: "continues where its tables end; no row is lost or duplicated",
    False: "rebuilds it and what depends on it next to the served tables, then switches",
}


@dataclass(frozen=True)
class Checkpoint:
    """Where a job continues: its epoch, its folder, and the offsets at which an epoch after a reset starts."""

    epoch: int
    location: Location
    starting_offsets: str = "earliest"
    landed: dict[str, int] = field(default_factory=dict)
    """By topic, the last offset that an unfinished batch may have written to the tables already."""

    def watermark(self, batch: int) -> datetime | None:
        """Read the watermark of a batch; None without state, or before the first event."""
        milliseconds = int(logged(self.location / "offsets" / str(batch), 1).get("batchWatermarkMs", 0))
        return datetime.fromtimestamp(milliseconds / 1000, UTC) if milliseconds > 0 else None

    def has_started(self) -> bool:
        """Return whether a micro-batch was started, complete or not."""
        return bool((self.location / "offsets").children("[0-9]*"))

    def has_completed(self) -> bool:
        """Return whether a micro-batch was completed: the next one starts where it ended."""
        return bool((self.location / "commits").children("[0-9]*"))

    @property
    def job_folder(self) -> Location:
        """Return the folder of the job: its epochs, and what is stored next to them."""
        return self.location.parent

    def table_offsets(self) -> list[dict[str, Any]]:
        """Read the end offsets of the last batch that was started, one for each input table."""
        started = sorted((self.location / "offsets").children("[0-9]*"), key=lambda file: int(file.name))
        return self._table_ends(int(started[-1].name)) if started else []

    def unfinished(self) -> int | None:
        """Return the batch that was started and not completed: the next run repeats it."""
        started, done = (
            max((int(file.name) for file in (self.location / kind).children("[0-9]*")), default=-1)
            for kind in ("offsets", "commits")
        )
        return started if started > done else None

    def records(self, batch: int) -> int:
        """Count the log offsets of a batch."""
        return sum(end - start for start, end in self.offsets(batch).values())

    def offsets(self, batch: int) -> dict[tuple[str, int], tuple[int, int]]:
        """Return the log offsets of a batch: by topic and partition, the first, and the one after the last."""
        before = self.location / "offsets" / str(batch - 1)
        low = logged(before, 2) if before.exists() else logged(self.location / "sources" / "0" / "0", -1)
        high = logged(self.location / "offsets" / str(batch), 2)
        return {
            (topic, int(partition)): (low.get(topic, {}).get(partition, 0), end)
            for topic, ends in high.items()
            for partition, end in ends.items()
        }

    def commits(self, batch: int) -> dict[str, tuple[int, int]]:
        """Return the commits of its input tables that a batch reads: by table id, the first and the last."""
        low, high = ({end["reservoirId"]: end for end in self._table_ends(number)} for number in (batch - 1, batch))
        found = {}
        for table, end in high.items():
            # An index below 0 points before the first file of a version: that version is not read yet.
            last = end["reservoirVersion"] - (end["index"] < 0)
            first = low[table]["reservoirVersion"] if table in low else 0
            if first <= last:
                found[table] = (first, last)
        return found

    def _table_ends(self, batch: int) -> list[dict[str, Any]]:
        lines = ((self.location / "offsets" / str(batch)).read() or "").splitlines()[2:]
        return [json.loads(line) for line in lines if line.startswith("{")]


def open_checkpoint(
    job: Job, settings: Settings, generation: int = 1, *, reads_log: bool = True, allow_code_change: bool = False
) -> Checkpoint:
    """Return the checkpoint of a job, or its first; raise an error if it was lost or if other code made it."""
    folder = job_folder(job.name, settings, generation)
    recorded = _recorded_epochs(job, settings, generation)
    epoch = max([*_epochs(folder), *recorded], default=1)
    location = folder / f"e{epoch}"
    started = bool((location / "offsets").children("[0-9]*"))
    ensure_readable(location)
    if epoch > 1 and job.topics:
        fresh = _start_file(folder, epoch).exists() and not _committed(job, settings, generation, epoch)
    else:
        begun = start.load(folder, epoch)
        fresh = bool(begun and begun.interrupted) or not _has_rows(job, settings, generation)
    fresh = fresh and epoch not in recorded
    if not started and not fresh:
        raise LakehouseError(
            f"The checkpoint of '{job.name}' is gone, but its tables are not empty: "
            "starting from the beginning would land everything a second time.",
            f"lakehouse stream reset {job.name}   ({_RESET[bool(job.topics)]})",
        )
    if reads_log:
        ensure_same_log(job, settings, folder)
    ensure_same_code(job, folder, allow_code_change=allow_code_change)
    landed_code.record(job, settings, folder)
    values = _start_file(folder, epoch).read_json(f"lakehouse stream reset {job.name}")
    if not values:
        return Checkpoint(epoch, location)
    return Checkpoint(epoch, location, json.dumps(values["offsets"]), values["landed"])


def has_begun(job: Job, settings: Settings, generation: int) -> bool:
    """Return whether a job that reads tables has begun to read them."""
    last = last_checkpoint(job, settings, generation)
    return last.has_started() or start.load(last.job_folder, last.epoch) is not None


def last_checkpoint(job: Job, settings: Settings, generation: int = 1) -> Checkpoint:
    """Return the last checkpoint of a job without checking whether the job can continue from it."""
    folder = job_folder(job.name, settings, generation)
    epoch = max(_epochs(folder), default=1)
    return Checkpoint(epoch, folder / f"e{epoch}")


def reset(job: Job, settings: Settings, generation: int = 1, *, accept_loss: str | None = None) -> Checkpoint:
    """Start a new epoch of a job that reads the log, after the last complete batch in the ledger.

    accept_loss: why to go on although Kafka no longer has records that the job has not landed.
    """
    folder = job_folder(job.name, settings, generation)
    ensure_same_log(job, settings, folder)
    _account_for_losses(job, settings, generation, accept_loss)
    epoch = max([*_epochs(folder), *_recorded_epochs(job, settings, generation)], default=0) + 1
    while _committed(job, settings, generation, epoch):  # by a batch that never finished
        epoch += 1
    landed = losses.accounted_up_to(settings, job.name, generation)
    # -2 is Kafka's "earliest": nothing of that partition has landed yet.
    offsets = by_topic({partition: landed.get(partition, -2) for partition in end_offsets(settings, job.topics)})
    last = archived_up_to(settings)
    _start_file(folder, epoch).write(json.dumps({"offsets": offsets, "landed": last}))
    return Checkpoint(epoch, folder / f"e{epoch}", json.dumps(offsets), last)


def lost_ranges(job: Job, settings: Settings, generation: int) -> losses.Ranges:
    """Return the offsets that a job would read next and that Kafka no longer has."""
    first, begun = last_checkpoint(job, settings, generation).location / "sources" / "0" / "0", dict[str, Any]()
    with suppress(DamagedFileError):  # a reset is the way out of a damaged checkpoint
        begun = logged(first, -1) if first.exists() else {}
    positions = {(topic, int(part)): offset for topic, parts in begun.items() for part, offset in parts.items()}
    return losses.find(settings, positions | losses.accounted_up_to(settings, job.name, generation))


def describe_lost(job: Job, settings: Settings, generation: int) -> str:
    """List the offsets that a job would read next and that Kafka no longer has, if Kafka answers."""
    with suppress(LakehouseError):
        return losses.describe(lost_ranges(job, settings, generation)) if job.topics else ""
    return ""


def _account_for_losses(job: Job, settings: Settings, generation: int, reason: str | None) -> None:
    """Record what Kafka no longer has as lost; without a reason, raise an error that names it."""
    lost = lost_ranges(job, settings, generation)
    if lost and reason:
        losses.record(settings, job.name, lost, reason)
    elif lost:
        raise LakehouseError(
            f"Kafka no longer has {losses.describe(lost)}, which '{job.name}' has not landed: they are lost.",
            f'lakehouse stream reset {job.name} --accept-loss "REASON"   (records them in the ledger as lost)',
        )
    elif reason is not None:
        raise LakehouseError(
            f"'{job.name}' has no loss to accept: nothing that it has not read is missing.",
            f"lakehouse stream reset {job.name}",
        )


def archived_up_to(settings: Settings) -> dict[str, int]:
    """Read the highest offset of each topic in the archive from Delta's statistics."""
    archive = table_location(settings, "bronze.events")
    last: dict[str, int] = {}
    if archive.is_table():
        actions: list[dict[str, Any]] = pa.table(archive.table().get_add_actions(flatten=True)).to_pylist()
        for file in actions:
            topic = file["partition.topic"]
            last[topic] = max(last.get(topic, -1), file.get("max.offset") or 0)
    return last


def job_folder(job: str, settings: Settings, generation: int) -> Location:
    """Return the folder of a job's checkpoints, progress and code version."""
    return storage(settings) / "checkpoints" / f"g{generation}" / job


def _start_file(folder: Location, epoch: int) -> Location:
    """Return the file that announces an epoch; an empty folder cannot, because object stores have none."""
    return folder / f"e{epoch}.start.json"


def _epochs(folder: Location) -> set[int]:
    """List the epochs that were started; a deleted checkpoint leaves the start file next to it."""
    return {int(path.name[1:].partition(".")[0]) for path in folder.children("e[0-9]*")}


def _recorded_epochs(job: Job, settings: Settings, generation: int) -> set[int]:
    return {row["epoch"] for row in ledger.entries(settings, [job.name]) if row["generation"] == generation}


def _has_rows(job: Job, settings: Settings, generation: int) -> bool:
    # All generations share the archive: its rows say nothing about a later generation.
    own = [name for name in job.writes if generation == 1 or table_named(name).layer != "bronze"]
    locations = [table_location(settings, name, generation) for name in own]
    return any(location.is_table() and location.table().file_uris() for location in locations)


def _committed(job: Job, settings: Settings, generation: int, epoch: int) -> bool:
    """Return whether a table has committed a batch of the epoch: Delta would skip another batch of the same number."""
    locations = [table_location(settings, name, generation) for name in job.writes]
    tables = [location.table() for location in locations if location.is_table()]
    return any(table.transaction_version(f"{job.name}/g{generation}/e{epoch}") is not None for table in tables)
