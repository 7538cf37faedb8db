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
from lake.location import Location, storage, warehouse

BY_HAND = "Restore it from a backup, or see 'A table is damaged' in docs/runbook.md."
ENRICHED = "silver.clicks_enriched"
"""The only silver table that a job builds from other tables: like gold, it is rebuilt from them."""

NOTHING_ELSE = "nothing else   (the last results are lost)"
OPS = {
    "ledger": "lakehouse stream reset landing, then: lakehouse stream run, then: lakehouse check ledger",
    "batches": "lakehouse stream reset {job}, then: lakehouse stream run",
    "generations": "lakehouse catalog refresh   (the last promotion, rollback or reset is undone: repeat it)",
    **dict.fromkeys(("code_versions", "fences", "publications"), "lakehouse batch run --full"),
}
"""What to do after the last entry of an ops table was removed; other tables keep measurements only."""


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
            hint = _mend_last(file, table, settings) if file == entries[-1] else BY_HAND
            return [Damage(file, "is cut off", hint)]
    for before, after in pairwise(needed):
        if int(after.name[:20]) != int(before.name[:20]) + 1:
            missing = table / "_delta_log" / f"{int(before.name[:20]) + 1:020}.json"
            return [Damage(missing, "is missing", BY_HAND)]
    if not table.is_table():
        return []  # a log without a commit, left by a kill
    files = [Location(unquote(url.removeprefix("file://"))) for url in deltalake.DeltaTable(table.url).file_uris()]
    hint = _rebuild(table, settings) or BY_HAND
    return [Damage(file, "is missing", hint) for file in files if not file.exists()]


def _is_whole(entry: Location) -> bool:
    """Check that each line is JSON, and that one says who made the commit: an empty file has no line at all."""
    lines = (entry.read_bytes() or b"").splitlines()
    try:
        actions = [json.loads(line) for line in lines]
    except ValueError:
        return False
    return any("commitInfo" in action for action in actions)


def _mend_last(entry: Location, table: Location, settings: Settings) -> str:
    """Return the way out of a last log entry that is cut off: remove it, then write again what its commit had.

    A job repeats its last batch only if Spark's own record of it was lost too, which nobody can tell. So a table that
    can be computed again is computed again, and for others the ledger check says whether rows are missing.
    """
    remove = f"rm '{entry}'"
    if again := _rebuild(table, settings):
        return again if again.startswith("rm ") else f"{remove}, then: {again}"
    layer, short, *_ = _parts(table, settings)
    if layer == "ops":
        lost_or_redrive = short == "ledger" and table.name != "landing"
        return (
            f"{remove}, then: {OPS.get(short, NOTHING_ELSE).format(job=table.name)}" if not lost_or_redrive else BY_HAND
        )
    land = f"{remove}, then: lakehouse stream run --until-caught-up, then: lakehouse check ledger"
    readers = f"reset the jobs that read {layer}.{short}: lakehouse stream reset JOB" if layer == "silver" else ""
    passes = f"if it passes, {readers}; if not, " if readers else "if it does not pass, "
    return f"{land}   ({passes}see 'A table is damaged' in docs/runbook.md)"


def _rebuild(table: Location, settings: Settings) -> str | None:
    """Return the command that computes a table again without reading what is left of it, if there is one.

    Bronze and ops have no second copy. Silver as landed has one, Kafka or bronze, but a replay is promoted only after
    it was compared with the damaged table.
    """
    layer, short, *rest = _parts(table, settings)
    if layer == "batch":
        return "lakehouse batch run --full   (older publications of this table stay damaged until they are dropped)"
    if layer not in ("silver", "gold"):
        return None
    served = _served(f"{layer}.{short}", settings)
    number = int(rest[0][1:])
    if number < served:
        return f"rm -r '{table}', then: lakehouse catalog refresh   (a later generation is served)"
    if number > served and (storage(settings) / "replays" / f"g{number}").exists():
        return f"lakehouse replay drop {number}, then: lakehouse replay run   (it was not served)"
    if layer == "gold" or f"{layer}.{short}" == ENRICHED:
        return f"lakehouse stream reset {short}, then: lakehouse stream run"
    return None


def _parts(table: Location, settings: Settings) -> list[str]:
    """Return the layer, the table, and the folders below it."""
    return table.url.removeprefix(f"{warehouse(settings)}/").split("/")


def _served(name: str, settings: Settings) -> int:
    """Return the generation of a table that is served."""
    try:
        return generations.live(settings).get(name, generations.FIRST)
    except Exception:  # the pointer may be the damaged table, and has its own line
        return generations.FIRST
