"""Promotion: serve a verified generation, or roll back to the previous one, each in one commit."""

from collections.abc import Callable, Sequence

from pyspark.sql import SparkSession

from config.errors import LakehouseError
from config.failpoints import failpoint
from config.settings import Settings
from expectations.gate import Audit
from lake import generations
from lake.costs import measured, record_cost
from lake.location import table_location, warehouse
from lake.locks import single_writer
from replay import certificate
from replay.audit import audited
from replay.checks import refuse_unfit, state_of
from replay.manifest import Replay, folder
from streaming.checkpoint import last_checkpoint, reset
from streaming.job import Job, job_named

LANDING = "landing"
FIRST_EPOCH = 1
Refresh = Callable[[], None]


def promote(
    spark: SparkSession,
    settings: Settings,
    replay: Replay,
    accept: str | None,
    refresh: Refresh,
    jobs: list[Job] | None = None,
) -> Audit:
    """Serve the tables of a replay if its certificate holds and they still pass the quality gate.

    jobs: the jobs of the replay, if they are not the project's own.
    """
    with single_writer(settings, ["replay"]):
        if is_promoted(settings, replay):
            raise LakehouseError(f"Generation {replay.generation} is served already.", "lakehouse replay list")
        _refuse_unproved(settings, replay, accept, jobs or replay.jobs_to_run())
        with measured(spark, warehouse(settings)) as cost:
            found = audited(spark, settings, replay)
        if not found.passed:
            return found
        _serve(settings, replay, accept, refresh)
    record_cost(settings, "replay", f"promote generation {replay.generation}", 0, cost)
    return found


def is_promoted(settings: Settings, replay: Replay) -> bool:
    """Return whether every table of a replay is served."""
    live = generations.live(settings)
    return all(live[name] == replay.generation for name in replay.tables)


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


def _serve(settings: Settings, replay: Replay, accept: str | None, refresh: Refresh) -> None:
    """Switch every reader to the tables of a replay, in one commit."""
    if LANDING in replay.jobs and replay.source != "kafka" and _outside_kafka(settings, replay):
        # Landing continues in Kafka where the archive or the served tables ended, in a new epoch.
        reset(job_named(LANDING), settings, replay.generation)
        failpoint("after replay epoch")
    refresh()
    failpoint("before ops.generations")
    generations.switch(settings, dict.fromkeys(replay.tables, replay.generation), "promote", accept or "")
    failpoint("after ops.generations")


def _outside_kafka(settings: Settings, replay: Replay) -> bool:
    """Return whether its landing has not read Kafka yet; if it has, a new epoch would land records twice."""
    checkpoint = last_checkpoint(job_named(LANDING), settings, replay.generation)
    return checkpoint.epoch == FIRST_EPOCH


def _refuse_unproved(settings: Settings, replay: Replay, accept: str | None, jobs: Sequence[Job]) -> None:
    """Raise an error unless the certificate describes the tables as they are and finds nothing against them."""
    number = replay.generation
    refuse_unfit(settings, replay, jobs)
    proof = certificate.load(settings, number)
    if proof is None:
        raise LakehouseError(f"Generation {number} has no certificate.", f"lakehouse replay verify {number}")
    if changed := _changed_since(proof.state, state_of(settings, replay)):
        raise LakehouseError(
            f"The certificate of generation {number} is about another state: {', '.join(changed)}.",
            f"lakehouse replay verify {number}",
        )
    if proof.failures:
        broken = ", ".join(f"{each['table']}: {each['rule']}" for each in proof.failures)
        raise LakehouseError(
            f"Generation {number} broke rules when it was verified: {broken}.",
            f"Fix the rule, or the data with a replay; then: lakehouse replay verify {number}",
        )
    if proof.unexplained and not accept:
        raise LakehouseError(
            f"{proof.unexplained:,} rows of generation {number} differ without a reason.",
            f"See {folder(settings, number) / 'certificate.html'}. To serve it anyway: "
            f'lakehouse replay promote {number} --accept "REASON"',
        )


def _changed_since(then: certificate.State, now: certificate.State) -> list[str]:
    """Name the tables that changed since they were verified."""
    if not then:
        return ["it was written by an older release"]
    said = {"tables": "has changed", "served": "is served from another table"}
    return [
        f"{name} {what}"
        for kind, what in said.items()
        for name, state in now[kind].items()
        if then.get(kind, {}).get(name) != state
    ]
