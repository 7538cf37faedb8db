"""Damaged tables: find the file that is cut off or missing, because the error of a reader often names none.

Delta's log is written without fsync, so a power cut can leave its last entry empty; a disk or a person can lose others.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from urllib.parse import unquote

import deltalake

from config.settings import Settings
from lake import generations
from lake.location import Location, warehouse

BY_HAND = "Restore it from a backup, or see 'A table is damaged' in docs/runbook.md."
ENRICHED = "silver.clicks_enriched"
"""The only silver table that a job builds from other tables: like gold, it is rebuilt from them."""


@dataclass(frozen=True)
class Damage:
    """A file of a table that is damaged or missing, and the command that fixes it."""

    file: Location
    problem: str
    hint: str


def damages(settings: Settings) -> list[Damage]:
    """Find the damaged files of all tables of a home."""
    return [damage for table in _tables(warehouse(settings)) for damage in _damages(table, settings)]


def _tables(folder: Location) -> Iterator[Location]:
    if (folder / "_delta_log").exists():
        yield folder
        return
    for child in folder.children():
        yield from _tables(child)


def _damages(table: Location, settings: Settings) -> list[Damage]:
    entries = [file for file in (table / "_delta_log").children("*.json") if file.name[:-5].isdigit()]
    checkpoints = (table / "_delta_log").children("*.checkpoint*.parquet")
    since = max((file.name[:20] for file in checkpoints), default="")
    needed = [file for file in entries if file.name[:20] > since]
    for file in needed:
        if not _is_whole(file):
            return [Damage(file, "is cut off", _mend_entry(file, is_last=file == entries[-1]))]
    for before, after in pairwise(needed):
        if int(after.name[:20]) != int(before.name[:20]) + 1:
            missing = table / "_delta_log" / f"{int(before.name[:20]) + 1:020}.json"
            return [Damage(missing, "is missing", BY_HAND)]
    if not table.is_table():
        return []  # a log without a commit, left by a kill
    files = [Location(unquote(url.removeprefix("file://"))) for url in deltalake.DeltaTable(table.url).file_uris()]
    return [Damage(file, "is missing", _rebuild(table, settings)) for file in files if not file.exists()]


def _is_whole(entry: Location) -> bool:
    """Check that each line is JSON, and that one says who made the commit: an empty file has no line at all."""
    lines = (entry.read_bytes() or b"").splitlines()
    try:
        actions = [json.loads(line) for line in lines]
    except ValueError:
        return False
    return any("commitInfo" in action for action in actions)


def _mend_entry(entry: Location, *, is_last: bool) -> str:
    if not is_last:
        return BY_HAND
    return f"rm '{entry}', then: lakehouse stream run, and: lakehouse check ledger   (the job repeats that commit)"


def _rebuild(table: Location, settings: Settings) -> str:
    """Return the command that writes a table again without reading what is left of it.

    Bronze and ops have no second copy. Silver as landed has one, Kafka or bronze, but a replay is promoted only after
    it was compared with the damaged table.
    """
    if table.parent.name == "batch":
        return "lakehouse batch run --full   (older publications of this table stay damaged until they are dropped)"
    layer, short = table.parent.parent.name, table.parent.name  # .../gold/views_per_minute/g1
    if layer != "gold" and f"{layer}.{short}" != ENRICHED:
        return BY_HAND
    if _is_replaced(f"{layer}.{short}", table.name, settings):
        return f"rm -r '{table}', then: lakehouse catalog refresh   (a later generation is served)"
    return f"lakehouse stream reset {short}, then: lakehouse stream run"


def _is_replaced(name: str, folder: str, settings: Settings) -> bool:
    """Return whether a later generation of a table is served."""
    try:
        served = generations.live(settings).get(name, generations.FIRST)
    except Exception:  # the pointer may be the damaged table, and has its own line
        return False
    return folder[1:].isdigit() and int(folder[1:]) < served
