"""Promotion: a proved generation becomes what is served, in one commit; and back, in one commit."""

from collections.abc import Callable

from pyspark.sql import SparkSession

from config.declarations import table_named
from config.errors import LakehouseError
from config.failpoints import failpoint
from config.locks import single_writer
from config.settings import Settings
from expectations.gate import Audit, audit
from lake import generations
from lake.costs import measured, record_cost
from lake.tables import read
from replay import certificate
from replay.manifest import Replay, folder
from streaming.checkpoint import last_checkpoint, reset
from streaming.job import job_named

LANDING = "landing"
FIRST_EPOCH = 1
Refresh = Callable[[], None]


def promote(spark: SparkSession, settings: Settings, replay: Replay, accept: str | None, refresh: Refresh) -> Audit:
    """Switch every table of a replay to its generation, if it is proved and its quality holds."""
    with single_writer(settings, ["replay"]), measured(spark, settings.warehouse) as cost:
        _refuse_unproved(settings, replay, accept)
        frames = {
            name: read(spark, name, settings.warehouse, number)
            for name, number in replay.generation_by_table.items()
            if number in generations.built(settings, table_named(name))  # a job that never ran has no table
        }
        found = audit(
            {name: frames.pop(name) for name in replay.tables},
            beside=frames,
            settings=settings,
            name=f"replay g{replay.generation}",
        )
        if not found.passed:
            return found
        if LANDING in replay.jobs and replay.source == "bronze" and _follows_archive(settings, replay):
            # The log goes on where the archive ended, in an epoch of its own.
            reset(job_named(LANDING), settings, replay.generation)
            failpoint("after replay epoch")
        refresh()
        failpoint("before ops.generations")
        numbers = dict.fromkeys(replay.tables, replay.generation)
        generations.switch(settings, numbers, "promote", accept or "")
        failpoint("after ops.generations")
    record_cost(settings, "replay", f"promote generation {replay.generation}", 0, cost)
    return found


def rollback(settings: Settings) -> dict[str, int]:
    """Serve again what was served before the last switch; give the generation of each table that changes."""
    with single_writer(settings, ["replay"]):
        now, before = generations.live(settings), generations.before(settings)
        if before is None:
            raise LakehouseError("Nothing was ever promoted: there is nothing to go back to.", "lakehouse replay list")
        changed = {name: number for name, number in before.items() if now[name] != number}
        for name, number in changed.items():
            if not table_named(name).path(settings.warehouse, number).exists():
                raise LakehouseError(f"Generation {number} of {name} was dropped.", "lakehouse replay list")
        generations.switch(settings, changed, "rollback")
        return changed


def _follows_archive(settings: Settings, replay: Replay) -> bool:
    """Tell whether its landing still follows the archive; once it follows the log, another epoch would repeat some."""
    checkpoint = last_checkpoint(job_named(LANDING), settings, replay.generation)
    return checkpoint.epoch == FIRST_EPOCH or not checkpoint.path.is_dir()


def _refuse_unproved(settings: Settings, replay: Replay, accept: str | None) -> None:
    number = replay.generation
    if replay.state == "running":
        raise LakehouseError(f"Replay {number} is not finished.", f"lakehouse replay run --resume {number}")
    proof = certificate.load(settings, number)
    if proof is None:
        raise LakehouseError(f"Generation {number} has no certificate.", f"lakehouse replay verify {number}")
    if proof.unexplained and not accept:
        raise LakehouseError(
            f"{proof.unexplained:,} rows of generation {number} differ without a reason.",
            f"See {folder(settings, number) / 'certificate.html'}; to serve it all the same: "
            f'lakehouse replay promote {number} --accept "REASON"',
        )
