"""Promotion: serve a verified generation, or roll back to the previous one, each in one commit."""

from collections.abc import Callable

from pyspark.sql import SparkSession

from config.declarations import table_named
from config.errors import LakehouseError
from config.failpoints import failpoint
from config.settings import Settings
from expectations.gate import Audit, audit
from lake import generations
from lake.costs import measured, record_cost
from lake.location import table_location, warehouse
from lake.locks import single_writer
from lake.tables import read
from replay import certificate
from replay.manifest import Replay, folder
from streaming.checkpoint import last_checkpoint, reset
from streaming.job import job_named

LANDING = "landing"
FIRST_EPOCH = 1
Refresh = Callable[[], None]


def promote(spark: SparkSession, settings: Settings, replay: Replay, accept: str | None, refresh: Refresh) -> Audit:
    """Serve the tables of a replay if it has a certificate and passes the quality gate."""
    with single_writer(settings, ["replay"]), measured(spark, warehouse(settings)) as cost:
        _refuse_unproved(settings, replay, accept)
        frames = {
            name: read(spark, name, settings, number)
            for name, number in replay.generation_by_table.items()
            if number in generations.built(settings, table_named(name))  # a job that never ran has no tables
        }
        found = audit(
            {name: frames.pop(name) for name in replay.tables},
            context_frames=frames,
            settings=settings,
            name=f"replay g{replay.generation}",
        )
        if not found.passed:
            return found
        if LANDING in replay.jobs and replay.source == "bronze" and _follows_archive(settings, replay):
            # Landing continues in Kafka where the archive ended, in a new epoch.
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
    """Serve the generations from before the last switch again; return the generation of each table that changes."""
    with single_writer(settings, ["replay"]):
        now, before = generations.live(settings), generations.before(settings)
        if before is None:
            raise LakehouseError("Nothing was promoted yet: there is nothing to roll back to.", "lakehouse replay list")
        changed = {name: number for name, number in before.items() if now[name] != number}
        for name, number in changed.items():
            if not table_location(settings, name, number).exists():
                raise LakehouseError(f"Generation {number} of {name} was dropped.", "lakehouse replay list")
        generations.switch(settings, changed, "rollback")
        return changed


def _follows_archive(settings: Settings, replay: Replay) -> bool:
    """Return whether its landing still reads the archive; if it reads Kafka, a new epoch would land records twice."""
    checkpoint = last_checkpoint(job_named(LANDING), settings, replay.generation)
    return checkpoint.epoch == FIRST_EPOCH


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
            f"See {folder(settings, number) / 'certificate.html'}. To serve it anyway: "
            f'lakehouse replay promote {number} --accept "REASON"',
        )
