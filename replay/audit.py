"""Audit: the quality gate on the tables of a replay; `verify` and `promote` run it."""

from pyspark.sql import SparkSession

from config.declarations import table_named
from config.settings import Settings
from expectations.gate import Audit, audit
from lake import generations
from lake.tables import read
from replay.manifest import Replay


def audited(spark: SparkSession, settings: Settings, replay: Replay) -> Audit:
    """Run the quality gate on the tables of a replay; rules may refer to the other tables that it read."""
    frames = {
        name: read(spark, name, settings, number)
        for name, number in replay.generation_by_table.items()
        if number in generations.built(settings, table_named(name))  # a job that never ran has no tables
    }
    return audit(
        {name: frames.pop(name) for name in replay.tables},
        context_frames=frames,
        settings=settings,
        name=f"replay g{replay.generation}",
    )
