"""Checkpoints and their epochs: where a job goes on, and why a lost checkpoint is never passed over.

A job's checkpoint is `checkpoints/g<generation>/<job>/e<epoch>`. Delta remembers, for each epoch, the last batch
written, so an epoch may never begin twice: a lost checkpoint is refused, and `reset` begins the next epoch where the
ledger says the last whole batch ended. A log that is not the one landed before is refused too.
"""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from config.declarations import table_named
from config.errors import LakehouseError
from config.kafka import end_offsets, topic_ids
from config.settings import Settings
from lake import ledger
from lake.location import Location, storage, table_location
from streaming.code_version import ensure_same_code
from streaming.job import Job
from streaming.landing.archive import by_topic

_RESET = {
    True: "goes on where its tables end; nothing is lost or doubled",
    False: "empties its table and makes it again from the tables it follows",
}


@dataclass(frozen=True)
class Checkpoint:
    """Where a job goes on: its epoch, its folder, and what an epoch after a reset begins with."""

    epoch: int
    location: Location
    starting_offsets: str = "earliest"
    landed: dict[str, int] = field(default_factory=dict)
    """By topic, the last offset that may be in the tables already, from a batch that was never finished."""

    def watermark(self, batch: int) -> datetime | None:
        """Read the watermark that Spark has given to a batch; none where there is no state, or nothing seen yet."""
        since_1970 = int(_logged(self.location / "offsets" / str(batch), 1).get("batchWatermarkMs", 0))
        return datetime.fromtimestamp(since_1970 / 1000, UTC) if since_1970 > 0 else None

    def followed(self) -> list[dict[str, Any]]:
        """Read how far in the tables it follows the last batch that was begun reaches."""
        begun = sorted((self.location / "offsets").children("[0-9]*"), key=lambda file: int(file.name))
        lines = (begun[-1].read() or "").splitlines()[2:] if begun else []
        return [json.loads(line) for line in lines if line.startswith("{")]

    def records(self, batch: int) -> int:
        """Count the offsets of the log that Spark has given to a batch."""
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
    """Find the checkpoint of a job, make its first, or refuse because it was lost or made by another logic."""
    folder = job_folder(job.name, settings, generation)
    recorded = _recorded_epochs(job, settings, generation)
    epoch = max([*_epochs(folder), *recorded], default=1)
    location = folder / f"e{epoch}"
    begun = bool((location / "offsets").children("[0-9]*"))
    announced = _start_file(folder, epoch).exists()
    fresh = epoch not in recorded and (announced if epoch > 1 else not _has_rows(job, settings, generation))
    if not begun and not fresh:
        raise LakehouseError(
            f"The checkpoint of '{job.name}' is gone, but its tables are not empty: "
            "starting anew would land everything a second time.",
            f"lakehouse stream reset {job.name}   ({_RESET[bool(job.topics)]})",
        )
    if not job.topics and not begun and epoch > 1:
        # Not when it is reset: until the job runs again, the old rows are better than none.
        _empty(job, settings, generation)
    if reads_log:
        _refuse_another_log(job, settings, folder)
    ensure_same_code(job, folder, allow_code_change=allow_code_change)
    values = json.loads(_start_file(folder, epoch).read() or "{}")
    if not values:
        return Checkpoint(epoch, location)
    return Checkpoint(epoch, location, json.dumps(values["offsets"]), values["landed"])


def last_checkpoint(job: Job, settings: Settings, generation: int = 1) -> Checkpoint:
    """Give the checkpoint of a job as it stands, whether or not it could go on from there."""
    folder = job_folder(job.name, settings, generation)
    epoch = max(_epochs(folder), default=1)
    return Checkpoint(epoch, folder / f"e{epoch}")


def reset(job: Job, settings: Settings, generation: int = 1) -> Checkpoint:
    """Begin a new epoch: of the log, where the last whole batch in the ledger ended; of tables, at their first."""
    folder = job_folder(job.name, settings, generation)
    _refuse_another_log(job, settings, folder)
    epoch = max([*_epochs(folder), *_recorded_epochs(job, settings, generation)], default=0) + 1
    while _seen(job, settings, generation, epoch):  # by a batch that never came to its end
        epoch += 1
    if not job.topics:
        _start_file(folder, epoch).write("{}")
        return Checkpoint(epoch, folder / f"e{epoch}")
    landed = ledger.landed_up_to(settings, job.name, generation)
    # -2 is Kafka's "earliest": nothing of that partition has landed yet.
    offsets = by_topic({place: landed.get(place, -2) for place in end_offsets(settings, job.topics)})
    last = archived_up_to(settings)
    _start_file(folder, epoch).write(json.dumps({"offsets": offsets, "landed": last}))
    return Checkpoint(epoch, folder / f"e{epoch}", json.dumps(offsets), last)


def _empty(job: Job, settings: Settings, generation: int) -> None:
    """Empty the tables of a job whose state is gone: what it follows is all there, and makes them again."""
    for name in job.writes:
        location = table_location(settings, name, generation)
        if location.is_table():
            location.table().delete()


def _refuse_another_log(job: Job, settings: Settings, folder: Location) -> None:
    """Remember the log by its topics' ids: offsets of another log mean nothing here."""
    if not job.topics:
        return
    known = folder / "log.json"
    ids = topic_ids(settings, job.topics)
    if (landed_before := known.read()) is not None:
        changed = [name for name, id_ in json.loads(landed_before).items() if ids.get(name, id_) != id_]
        if changed:
            raise LakehouseError(
                f"The log is not the one '{job.name}' landed before: {', '.join(changed)} was created anew.",
                "Bring the old log back; or begin with empty tables too: make clean   (or another LAKEHOUSE_HOME)",
            )
        return
    known.write(json.dumps(ids))


def archived_up_to(settings: Settings) -> dict[str, int]:
    """Read from Delta's statistics how far, at the most, the archive reaches in each topic."""
    archive = table_location(settings, "bronze.events")
    last: dict[str, int] = {}
    if archive.is_table():
        actions: list[dict[str, Any]] = pa.table(archive.table().get_add_actions(flatten=True)).to_pylist()
        for file in actions:
            topic = file["partition.topic"]
            last[topic] = max(last.get(topic, -1), file.get("max.offset") or 0)
    return last


def _logged(file: Location, line: int) -> dict[str, Any]:
    """Read a line of one of Spark's own logs."""
    text = (file.read() or "").splitlines()[line]
    return dict(json.loads(text[text.index("{") :]))  # the first line of some begins with a version, like v1


def job_folder(job: str, settings: Settings, generation: int) -> Location:
    """Return the folder of a job's checkpoints, progress and code version."""
    return storage(settings) / "checkpoints" / f"g{generation}" / job


def _start_file(folder: Location, epoch: int) -> Location:
    """Return the file that announces an epoch: object stores have no empty folders to do it."""
    return folder / f"e{epoch}.start.json"


def _epochs(folder: Location) -> set[int]:
    """Name every epoch that was ever begun: a deleted folder leaves the file beside it, and the ledger's rows."""
    return {int(path.name[1:].partition(".")[0]) for path in folder.children("e[0-9]*")}


def _recorded_epochs(job: Job, settings: Settings, generation: int) -> set[int]:
    return {row["epoch"] for row in ledger.entries(settings, [job.name]) if row["generation"] == generation}


def _has_rows(job: Job, settings: Settings, generation: int) -> bool:
    # The archive is one for all generations: that it has rows says nothing of a later one.
    own = [name for name in job.writes if generation == 1 or table_named(name).layer != "bronze"]
    locations = [table_location(settings, name, generation) for name in own]
    return any(location.is_table() and location.table().file_uris() for location in locations)


def _seen(job: Job, settings: Settings, generation: int, epoch: int) -> bool:
    """Tell whether a table remembers a batch of the epoch: Delta would skip another of the same number."""
    locations = [table_location(settings, name, generation) for name in job.writes]
    tables = [location.table() for location in locations if location.is_table()]
    return any(table.transaction_version(f"{job.name}/g{generation}/e{epoch}") is not None for table in tables)
