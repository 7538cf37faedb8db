"""Publications: one commit that names, for every table and segment, the run whose rows are served."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from batch import fence
from batch.segments import RUN, Segments, path
from batch.settings import BatchSettings
from config.declarations import table_named
from config.errors import LakehouseError
from config.failpoints import failpoint
from config.settings import Settings, nearest
from lake.location import table_location
from lake.tables import append_once, arrow_schema, read_arrow

TABLE = "ops.publications"
RUN_NAME = "%Y%m%dT%H%M%S%f"
"""A run is named after its start time."""


@dataclass(frozen=True)
class Publication:
    """One publication: its run, and for each table and segment the run that computed it."""

    number: int
    run: str
    published_at: datetime
    tables: Mapping[str, Segments]


def publications(settings: Settings) -> list[Publication]:
    """List all publications in order."""
    found: dict[int, Publication] = {}
    for row in read_arrow(table_location(settings, TABLE)).to_pylist():
        number = row["publication"]
        each = found.setdefault(number, Publication(number, row["run"], row["published_at"], {}))
        segments: Segments = each.tables.setdefault(row["table_name"], {})  # type: ignore[attr-defined]
        segments[row["segment"]] = row["computed_by"]
    return [found[number] for number in sorted(found)]


def served_publication(settings: Settings) -> Publication | None:
    """Return the served publication, or None."""
    return next(reversed(publications(settings)), None)


def moments(settings: Settings) -> list[tuple[datetime, datetime]]:
    """Return the start time of each published run and when it was first served, in order."""
    rows = read_arrow(table_location(settings, TABLE), None, ("run", "published_at"))
    if not len(rows):
        return []
    first = rows.group_by("run", use_threads=False).aggregate([("published_at", "min")]).to_pylist()
    began = (datetime.strptime(row["run"], RUN_NAME).replace(tzinfo=UTC) for row in first)
    return sorted(zip(began, (row["published_at_min"] for row in first), strict=True))


def publish(settings: Settings, run: str, tables: Mapping[str, Segments]) -> Publication:
    """Serve the given segments of every table, in one commit."""
    last = served_publication(settings)
    now = datetime.now(UTC)
    number = last.number + 1 if last else 1
    common = {"publication": number, "run": run, "published_at": now}
    rows = [
        {**common, "table_name": name, "segment": segment, "computed_by": computed_by}
        for name, segments in tables.items()
        for segment, computed_by in segments.items()
    ]
    table = table_named(TABLE)
    append_once(
        table_location(settings, table.name), pa.Table.from_pylist(rows, arrow_schema(table)), "publication", number
    )
    failpoint(f"after {TABLE}")
    return Publication(number, run, now, tables)


def publish_again(settings: Settings, run: str) -> Publication:
    """Serve again what was served when a run was published."""
    known = kept(settings)
    found = [each for each in known if each.run == run]
    if not found:
        names = list(dict.fromkeys(each.run for each in known))
        why = "was never published" if run in fence.runs(settings) else "is not kept"
        raise LakehouseError(
            f"Run '{run}' {why}: {nearest(run, names)}" if names else "Nothing was published yet.",
            "lakehouse batch status   (lists the runs)",
        )
    return publish(settings, run, found[-1].tables)


def kept(settings: Settings) -> list[Publication]:
    """List the publications that can be served again: the last ones, as many as `batch.keep_publications`."""
    last_of_run = {each.run: each for each in publications(settings)}
    newest = sorted(last_of_run.values(), key=lambda each: each.number)
    return newest[-settings.section(BatchSettings).keep_publications :]


def drop_unused(settings: Settings) -> int:
    """Delete the rows of runs that no kept publication names; vacuum removes their files later."""
    used = {run for each in kept(settings) for segments in each.tables.values() for run in segments.values()}
    dropped = 0
    for name in {name for each in publications(settings) for name in each.tables}:
        table = path(settings, name).table()
        unused = {part[RUN] for part in table.partitions()} - used
        if unused:
            runs = ", ".join(f"'{run}'" for run in sorted(unused))
            table.delete(f"{RUN} in ({runs})")
            table.vacuum(retention_hours=24, enforce_retention_duration=False, dry_run=False)
            dropped += len(unused)
    return dropped
