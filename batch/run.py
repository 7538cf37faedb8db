"""A run of the batch layer: write aside, audit, publish."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import deltalake
from pyspark.sql import DataFrame, SparkSession

from batch import fence, publications, records
from batch.fence import Fence
from batch.publications import Publication
from batch.rebuild import Rebuild, Watch
from batch.segments import Segments
from config.declarations import table_named
from config.errors import LakehouseError
from config.settings import Settings
from expectations.gate import Audit, audit
from lake.costs import Cost, measured, record_cost


@dataclass(frozen=True)
class Result:
    """What a run came to: a publication, or an audit that forbade one."""

    run: str
    fence: Fence
    full: bool
    changed: Mapping[str, int]
    """By table, how many segments were computed."""

    audit: Audit | None
    publication: Publication | None
    cost: Cost
    audit_seconds: float = 0.0


def run(spark: SparkSession, settings: Settings, *, full: bool, watch: Watch) -> Result:
    """Recompute what changed since the last publication, or all; publish it if every check lets it pass."""
    archive_path = table_named(fence.ARCHIVE).path(settings.warehouse)
    if not deltalake.DeltaTable.is_deltatable(str(archive_path)):
        raise LakehouseError("There is no archive yet: nothing was landed.", "lakehouse stream run --until-caught-up")
    last = publications.served(settings)
    full = full or last is None or records.known_logic(settings) != records.logic()
    name = datetime.now(UTC).strftime(publications.RUN_NAME)[:-3]
    with measured(spark, settings.warehouse / "batch") as cost:
        archive, limit = fence.take(spark, settings)
        if not limit.offsets:
            raise LakehouseError("The archive is empty.", "lakehouse stream run --until-caught-up")
        watch("bronze.events")
        records.judge(archive, settings, full=full)
        base = None if full else last
        rebuild = Rebuild(spark, settings, name, base.tables if base else {})
        rebuild.silver(archive, fence.of_run(settings, base.run).offsets if base else {}, watch)
        rebuild.gold(watch)
        if base and not rebuild.changed:
            return Result(base.run, limit, full, {}, None, base, cost)
        fence.record_fence(settings, name, limit)
        watch("checks")
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
