"""A run of the batch layer: write, audit, publish."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession

from batch import code_versions, fence, publications, records
from batch.fence import Fence
from batch.publications import Publication
from batch.rebuild import OnStep, Rebuild
from batch.segments import Segments
from config.errors import LakehouseError
from config.settings import Settings
from expectations.gate import Audit, audit
from lake.costs import Cost, measured, record_cost
from lake.location import table_location, warehouse
from streaming.set_aside import active


@dataclass(frozen=True)
class Result:
    """The result of a run: a publication, or an audit that prevented one."""

    run: str
    fence: Fence
    full: bool
    changed: Mapping[str, int]
    """The number of segments computed, by table."""

    audit: Audit | None
    publication: Publication | None
    cost: Cost
    audit_seconds: float = 0.0


def run(spark: SparkSession, settings: Settings, *, full: bool, on_step: OnStep) -> Result:
    """Recompute what changed since the last publication, or everything; publish it if the audit passes."""
    archive_path = table_location(settings, fence.ARCHIVE)
    if not archive_path.is_table():
        raise LakehouseError("There is no archive yet: nothing was landed.", "lakehouse stream run --until-caught-up")
    last = publications.served_publication(settings)
    versions = code_versions.current(active(settings))
    before = code_versions.of_run(settings, last.run) if last else {}
    full = full or last is None or code_versions.needs_full_run(before, versions)
    name = datetime.now(UTC).strftime(publications.RUN_NAME)[:-3]
    with measured(spark, warehouse(settings) / "batch") as cost:
        archive, limit = fence.take(spark, settings)
        if not limit.offsets:
            raise LakehouseError("The archive is empty.", "lakehouse stream run --until-caught-up")
        on_step("bronze.events")
        records.parse_new(archive, settings, versions[code_versions.SILVER], full=full)
        base = None if full else last
        stale = code_versions.stale(before, versions)
        rebuild = Rebuild(spark, settings, name, base.tables if base else {}, stale)
        rebuild.silver(fence.of_run(settings, base.run).offsets if base else {}, on_step)
        rebuild.gold(on_step)
        if base and not rebuild.changed:
            return Result(base.run, limit, full, {}, None, base, cost)
        fence.record_fence(settings, name, limit)
        code_versions.record_versions(settings, name, versions)
        on_step("checks")
        began = time.monotonic()
        found = _audit(rebuild, settings)
        audit_seconds = time.monotonic() - began
        published = None
        if found.passed:
            published = publications.publish(settings, name, rebuild.all_tables())
            publications.drop_unused(settings)
    changed = {table: len(each) for table, each in rebuild.changed.items()}
    new = limit.records if base is None else limit.records - fence.of_run(settings, base.run).records
    record_cost(settings, "batch", name, new, cost, whole=base is None)
    return Result(name, limit, full, changed, found, published, cost, audit_seconds)


def frames(spark: SparkSession, settings: Settings, tables: Mapping[str, Segments]) -> dict[str, DataFrame]:
    """Read every table of a publication."""
    rebuild = Rebuild(spark, settings, "", tables)
    return {name: rebuild.frame(name) for name in tables}


def _audit(rebuild: Rebuild, settings: Settings) -> Audit:
    candidates = {name: rebuild.frame(name) for name in rebuild.all_tables()}
    return audit(candidates, settings=settings, name=f"batch {rebuild.run}")
