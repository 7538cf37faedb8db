"""Checkpoints and their epochs: where a job continues, and why a lost checkpoint is an error.

A job's checkpoint is `checkpoints/g<generation>/<job>/e<epoch>`. Delta stores the last batch written in each
epoch, so an epoch may never start twice: a lost checkpoint is an error, and `reset` starts the next epoch where the
last complete batch in the ledger ended. A log other than the one that was landed before is an error too.
"""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from config.declarations import table_named
from config.errors import LakehouseError
from config.kafka import end_offsets
from config.settings import Settings
from lake import ledger
from lake.location import Location, storage, table_location
from streaming.code_version import ensure_same_code
from streaming.job import Job
from streaming.landing.archive import by_topic
from streaming.topic_identity import ensure_same_log

_RESET = {
    True: "continues where its tables end; no row is lost or duplicated",
    False: "empties its table and rebuilds it from its input tables",
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
        milliseconds = int(_logged(self.location / "offsets" / str(batch), 1).get("batchWatermarkMs", 0))
        return datetime.fromtimestamp(milliseconds / 1000, UTC) if milliseconds > 0 else None

    def table_offsets(self) -> list[dict[str, Any]]:
        """Read the end offsets of the last batch that was started, one for each input table."""
        started = sorted((self.location / "offsets").children("[0-9]*"), key=lambda file: int(file.name))
        lines = (started[-1].read() or "").splitlines()[2:] if started else []
        return [json.loads(line) for line in lines if line.startswith("{")]

    def records(self, batch: int) -> int:
        """Count the log offsets of a batch."""
        before = self.location / "offsets" / str(batch - 1)
        low = _logged(before, 2) if before.exists() else _logged(self.location / "sources" / "0" / "0", -1)
        high = _logged(self.location / "offsets" / str(batch), 2)
        return sum(
            end - low.get(topic, {}).get(partition, 0)
            for topic, ends in high.items()
            for partition, end in ends.items()
        )


def open_checkpoint(
    job: Job, settings: Settings, generation: int = 1, *, reads_log: bool = True, allow_code_change: bool = False
) -> Checkpoint:
    """Return the checkpoint of a job, or its first; raise an error if it was lost or if other code made it."""
    folder = job_folder(job.name, settings, generation)
    recorded = _recorded_epochs(job, settings, generation)
    epoch = max([*_epochs(folder), *recorded], default=1)
    location = folder / f"e{epoch}"
    started = bool((location / "offsets").children("[0-9]*"))
    if epoch > 1:
        fresh = _start_file(folder, epoch).exists() and not _committed(job, settings, generation, epoch)
    else:
        fresh = not _has_rows(job, settings, generation)
    fresh = fresh and epoch not in recorded
    if not started and not fresh:
        raise LakehouseError(
            f"The checkpoint of '{job.name}' is gone, but its tables are not empty: "
            "starting from the beginning would land everything a second time.",
            f"lakehouse stream reset {job.name}   ({_RESET[bool(job.topics)]})",
        )
    if not job.topics and not started and epoch > 1:
        # Here, not in reset(): until the job runs again, old rows are better than none.
        _empty(job, settings, generation)
    if reads_log:
        ensure_same_log(job, settings, folder)
    ensure_same_code(job, folder, allow_code_change=allow_code_change)
    values = json.loads(_start_file(folder, epoch).read() or "{}")
    if not values:
        return Checkpoint(epoch, location)
    return Checkpoint(epoch, location, json.dumps(values["offsets"]), values["landed"])


def last_checkpoint(job: Job, settings: Settings, generation: int = 1) -> Checkpoint:
    """Return the last checkpoint of a job without checking whether the job can continue from it."""
    folder = job_folder(job.name, settings, generation)
    epoch = max(_epochs(folder), default=1)
    return Checkpoint(epoch, folder / f"e{epoch}")


def reset(job: Job, settings: Settings, generation: int = 1) -> Checkpoint:
    """Start a new epoch: on the log, after the last complete batch in the ledger; on tables, at their first commit."""
    folder = job_folder(job.name, settings, generation)
    ensure_same_log(job, settings, folder)
    epoch = max([*_epochs(folder), *_recorded_epochs(job, settings, generation)], default=0) + 1
    while _committed(job, settings, generation, epoch):  # by a batch that never finished
        epoch += 1
    if not job.topics:
        _start_file(folder, epoch).write("{}")
        return Checkpoint(epoch, folder / f"e{epoch}")
    landed = ledger.landed_up_to(settings, job.name, generation)
    # -2 is Kafka's "earliest": nothing of that partition has landed yet.
    offsets = by_topic({partition: landed.get(partition, -2) for partition in end_offsets(settings, job.topics)})
    last = archived_up_to(settings)
    _start_file(folder, epoch).write(json.dumps({"offsets": offsets, "landed": last}))
    return Checkpoint(epoch, folder / f"e{epoch}", json.dumps(offsets), last)


def _empty(job: Job, settings: Settings, generation: int) -> None:
    """Empty the tables of a job whose state is gone: its input tables are complete, and the job rebuilds its own."""
    for name in job.writes:
        location = table_location(settings, name, generation)
        if location.is_table():
            location.table().delete()


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


def _logged(file: Location, line: int) -> dict[str, Any]:
    """Read a line of a file in Spark's checkpoint."""
    text = (file.read() or "").splitlines()[line]
    return dict(json.loads(text[text.index("{") :]))  # some lines start with a version, such as v1


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
