"""Rebuild: a job that reads tables, and every job downstream of it, from the rows of their input tables.

The tables are built in a new generation next to the served ones, and one commit switches to it, so no reader ever sees
an empty or half-built table. An interrupted rebuild starts over: its generation was never served.
"""

import json

from pyspark.sql import SparkSession

from config.errors import LakehouseError
from config.failpoints import failpoint
from config.settings import Settings
from lake import batch_log, generations
from lake.catalog import keep_up
from lake.generations import TableGenerations
from lake.location import Location, storage, table_location
from lake.locks import single_writer
from lake.tables import create_missing
from streaming.job import Job, downstream
from streaming.progress import OnProgress
from streaming.runner import Runner
from streaming.windows.closing import close

LOCK = "replay"
"""One rebuild at a time: a replay and a promotion move the same pointer."""


def rebuild(spark: SparkSession, settings: Settings, job: Job, on_progress: OnProgress | None = None) -> list[str]:
    """Rebuild a job's table and those downstream, then serve them; return their names."""
    with single_writer(settings, [LOCK]):
        remove_unserved(settings)
        # The pointer must exist before a second generation does: views read it to choose one.
        create_missing([generations.TABLE], settings)
        jobs = downstream([job])
        tables = [name for each in jobs for name in each.writes]
        number = generations.unused(settings)
        served = generations.serving(settings)
        target = TableGenerations({**served.generation_by_table, **dict.fromkeys(tables, number)}, replay=number)
        (_records(settings) / f"g{number}" / "reset.json").write(json.dumps({"job": job.name, "tables": tables}))
        failpoint("after reset record")
        try:
            Runner(settings, spark, target).run(jobs, until_caught_up=True, on_progress=on_progress)
        except LakehouseError as error:
            raise LakehouseError(
                f"The reset of '{job.name}' has failed; what is served has not changed.\n{error.problem}",
                f"After the cause is fixed: lakehouse stream reset {job.name}",
            ) from error
        failpoint("after reset run")
        for each in jobs:
            _close_as_served(each, served, target, settings, spark)
        keep_up(settings)
        failpoint("before reset switch")
        generations.switch(settings, dict.fromkeys(tables, number), "reset", job.name)
        return tables


def remove_unserved(settings: Settings) -> None:
    """Remove what earlier rebuilds have built and nobody is served: interrupted ones, and those replaced since."""
    served = generations.live(settings)
    for folder in _records(settings).children("g[0-9]*"):
        number = int(folder.name[1:])
        if number not in served.values():
            # What was built is on the disk: the record of the reset may be cut off, or was never written.
            built = [name for name in served if table_location(settings, name, number).exists()]
            generations.remove(settings, built, number, lambda: keep_up(settings))
            folder.remove()


def _close_as_served(
    job: Job, served: TableGenerations, target: TableGenerations, settings: Settings, spark: SparkSession
) -> None:
    """Finalize the rows that were served as final: the rebuild's own watermark may be further back."""
    before = batch_log.closed_until(settings, job.name, served.of_job(job))
    reached = batch_log.closed_until(settings, job.name, target.of_job(job))
    if before and (reached is None or reached < before):
        close(job, settings, spark, target, before)


def _records(settings: Settings) -> Location:
    return storage(settings) / "resets"
