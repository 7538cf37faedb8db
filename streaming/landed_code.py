"""Landed code: every version of landing's code, rules and contracts that has landed rows of a generation.

Landing may change under its checkpoint, unlike a job that reads tables: landed rows stay. So each start adds the
present version to a list. If the list has one version, landing the same records again with that code gives the same
rows, and a replay may take the served ones instead (docs/decisions/0036).
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from config.declarations import table_named
from config.settings import Settings
from lake.location import Location
from streaming.code_graph import digest
from streaming.code_version import code_parts, table_contract, version_of
from streaming.job import Job

FILE = "landed_code.json"
UNKNOWN: Mapping[str, Any] = {"code_version": "", "parts": {}, "since": ""}
"""Stands for the code of a release that did not record it."""


def record(job: Job, settings: Settings, folder: Location) -> None:
    """Add the present code of landing to the versions that have landed into a generation, before it lands anything.

    folder: that of the job's checkpoints in the generation.
    """
    if not job.topics or not job.module:
        return
    known = recorded(folder)
    if not known and folder.children("e[0-9]*"):
        known = [UNKNOWN]
    now = present(job, settings)
    if now["code_version"] not in {each["code_version"] for each in known}:
        save(folder, [*known, now | {"since": datetime.now(UTC).isoformat(timespec="seconds")}])


def present(job: Job, settings: Settings) -> dict[str, Any]:
    """Return the version of landing's code, contracts, tables, and of the setting that decides what a duplicate is."""
    parts = code_parts(job)
    parts |= {f"table {name}": digest([table_contract(table_named(name))]) for name in job.writes}
    parts["setting streaming.dedup_horizon_minutes"] = digest([settings.streaming.dedup_horizon_minutes])
    return {"code_version": version_of(parts), "parts": parts}


def recorded(folder: Location) -> list[Mapping[str, Any]]:
    """Read the versions that have landed into a generation, the first one first; none if nothing has landed."""
    file = folder / FILE
    values = file.read_json(f"It only says whether a replay may take the served rows: rm '{file}'")
    return list(values["versions"]) if values else []


def save(folder: Location, versions: list[Mapping[str, Any]]) -> None:
    """Write the list, completely or not at all."""
    (folder / FILE).write(json.dumps({"versions": versions}))
