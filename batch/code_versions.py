"""Code versions of the batch layer: which tables of a publication were computed by code that has changed since.

Silver has one version: parsing, validation and deduplication are one computation for all topics. Every other table has
its own: that of its job, or of the function that the batch layer uses instead, and the versions of its inputs.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from batch import records
from batch.rebuild import Rebuild
from config.declarations import table_named
from config.settings import Settings
from lake.location import table_location
from lake.tables import append_once, arrow_schema, read_arrow
from streaming import bounded
from streaming.code_graph import digest
from streaming.code_version import INFRASTRUCTURE, LANDING, code_parts, contract_parts, parts_of, version_of
from streaming.job import in_stages, jobs
from streaming.set_aside import SetAside

TABLE = "ops.code_versions"
SILVER = "silver"
OVERRIDES = "streaming.bounded.OVERRIDES"
"""Each function in it counts for its own table, not for all."""

Versions = Mapping[str, str]


def silver_parts() -> dict[str, str]:
    """Return what silver depends on, and with it every table: how records are parsed, and how tables are rebuilt."""
    return parts_of([records.parse_new, Rebuild], stops=(*INFRASTRUCTURE, OVERRIDES)) | contract_parts()


def current(set_aside: Iterable[SetAside] = ()) -> dict[str, str]:
    """Return the version of the code that computes each table now; records that are set aside change silver too."""
    aside = {f"{each.origin}": digest([f"{each.origin}"]) for each in set_aside}
    found = {SILVER: version_of(silver_parts() | aside)}
    for stage in in_stages([job for job in jobs().values() if job.reads]):
        for job in stage:
            override = bounded.OVERRIDES.get(job.name)
            instead = parts_of([override], stops=(*INFRASTRUCTURE, *LANDING)) if override else {}
            inputs = [found.get(name, found[SILVER]) for name in (*job.reads, *bounded.lookups(job))]
            (name,) = job.writes
            found[name] = digest([version_of(code_parts(job) | instead), *inputs])
    return found


def needs_full_run(before: Versions, now: Versions) -> bool:
    """Tell whether nothing of a publication can be kept: silver's code has changed, or a table is gone."""
    return before.get(SILVER) != now[SILVER] or not set(before) <= set(now)


def stale(before: Versions, now: Versions) -> frozenset[str]:
    """Name the tables whose code has changed, or is not known."""
    return frozenset(name for name in now if before.get(name) != now[name])


def record_versions(settings: Settings, run: str, versions: Versions) -> None:
    """Record the versions of a run, once."""
    now = datetime.now(UTC)
    rows = [
        {"run": run, "table_name": name, "code_version": version, "recorded_at": now}
        for name, version in versions.items()
    ]
    table = table_named(TABLE)
    append_once(table_location(settings, TABLE), pa.Table.from_pylist(rows, arrow_schema(table)), f"code/{run}", 1)


def of_run(settings: Settings, run: str) -> dict[str, str]:
    """Read the versions of a run; a run of an older release has none, so all of its tables count as changed."""
    rows = read_arrow(table_location(settings, TABLE), pc.field("run") == run).to_pylist()
    return {row["table_name"]: row["code_version"] for row in rows}
