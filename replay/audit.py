"""Audit: the quality gate on the tables of a replay; `verify` and `promote` run it."""

from dataclasses import replace

from pyspark.sql import SparkSession

from config.declarations import table_named
from config.settings import Settings
from expectations.gate import Audit, audit
from lake import generations, ledger
from lake.tables import read
from replay.manifest import Replay

AS_THE_LEDGER_SAYS = "as_the_ledger_says"
LANDED = "silver.late"
"""A table that landing writes: a replay that builds it has landed every record itself."""


def audited(spark: SparkSession, settings: Settings, replay: Replay) -> Audit:
    """Run the quality gate on the tables of a replay; rules may refer to the other tables that it read."""
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
        ledger=_landed(settings, replay),
    )
    # `check ledger` follows what is served; a replay whose tables differ from its ledger cannot be repaired.
    again = f"lakehouse replay drop {replay.generation}   (then: lakehouse replay run)"
    findings = [replace(each, look=again) if each.rule == AS_THE_LEDGER_SAYS else each for each in found.findings]
    return replace(found, findings=findings)


def _landed(settings: Settings, replay: Replay) -> ledger.Entry | None:
    """Return the ledger's entries of a replay that has landed records itself."""
    if LANDED not in replay.tables:
        return None
    entries = ledger.entries(settings, [ledger.LANDING, ledger.REDRIVE])
    return [row for row in entries if row["generation"] == replay.generation]
