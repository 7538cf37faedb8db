"""Landing again: the reasons why a replay must do it, because the served silver rows may not be what it would give.

Each reason that is missing here would let a replay serve rows that landing the same records again does not give.
"""

import pyarrow.compute as pc

from config.settings import Settings
from expectations.quarantine.plan import unfinished
from lake import ledger
from lake.generations import serving
from lake.ledger import LANDING, REDRIVE
from lake.location import table_location
from lake.tables import ORIGIN, read_arrow
from replay.manifest import replays
from streaming.checkpoint import job_folder
from streaming.code_version import describe_changes
from streaming.job import job_named
from streaming.landed_code import present, recorded
from streaming.set_aside import RULE, Origin, active

COMMAND = "lakehouse replay run --source bronze   (lands every record again)"
QUARANTINE = "silver.quarantine"
Reason = tuple[str, str]
"""Why, and the command that lands again."""


def reasons(settings: Settings) -> list[Reason]:
    """List why the served silver tables cannot stand for landing again; none if they can."""
    generation = serving(settings).of_job(job_named(LANDING))
    entries = [row for row in ledger.entries(settings, [LANDING, REDRIVE]) if row["generation"] == generation]
    if not any(row["job"] == LANDING for row in entries):
        return [("Nothing has been landed: there are no served silver rows.", "lakehouse stream run landing")]
    found = [
        _code_changed(settings, generation),
        _started_later(settings, generation),
        _redriven(settings, generation, entries),
        _set_aside(settings, generation, entries),
    ]
    return [(why, COMMAND) for why in found if why]


def _code_changed(settings: Settings, generation: int) -> str | None:
    """Compare the present code of landing with every version that has landed into the generation."""
    job = job_named(LANDING)
    versions, now = recorded(job_folder(LANDING, settings, generation)), present(job, settings)
    if not versions or not all(each["parts"] for each in versions):
        return "It is not known which code landed the served silver tables: an older release, or its record is gone."
    others = [each for each in versions if each["code_version"] != now["code_version"]]
    if others:
        return (
            f"Landing's code, rules or contracts are not those that landed the served silver tables.\n"
            f"{describe_changes(others[-1], now['parts'])}"
        )
    return None


def _started_later(settings: Settings, generation: int) -> str | None:
    if any(each.generation == generation and each.starting != "earliest" for each in replays(settings)):
        return f"The served silver tables are those of replay {generation}, which did not start at the first record."
    return None


def _redriven(settings: Settings, generation: int, entries: ledger.Entry) -> str | None:
    """Find redrives: a redriven record landed after its copies, by other rules than those it came in under."""
    if unfinished(settings, generation) or any(row["job"] == REDRIVE for row in entries):
        return "Records were redriven out of quarantine: landing again decides about them at their place in the log."
    return None


def _set_aside(settings: Settings, generation: int, entries: ledger.Entry) -> str | None:
    """Compare the records that are set aside now with those that were landed as such."""
    ends = ledger.ends_of(row for row in entries if row["job"] == LANDING)
    now = {each.origin for each in active(settings) if each.offset < ends.get(each.origin[:2], 0)}
    landed = {origin for origin in _landed_as_set_aside(settings, generation) if origin[2] < ends.get(origin[:2], 0)}
    return "Other records are set aside now than were when they landed." if now != landed else None


def _landed_as_set_aside(settings: Settings, generation: int) -> set[Origin]:
    rows = read_arrow(table_location(settings, QUARANTINE, generation), columns=[*ORIGIN, "rules"])
    if not len(rows):
        return set()
    rules = rows["rules"].combine_chunks()
    marked = rows.take(pc.list_parent_indices(rules).filter(pc.equal(pc.list_flatten(rules), RULE)))
    return {(row["topic"], row["partition"], row["offset"]) for row in marked.to_pylist()}
