"""Dropped rows: what Spark drops behind a watermark is in no table, so the job stops until it is reset."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from config.errors import LakehouseError
from config.settings import Settings
from lake import batch_log
from lake.generations import TableGenerations
from streaming.checkpoint import last_checkpoint
from streaming.job import Job

METRIC = "numRowsDroppedByWatermark"


def dropped_in_batch(spark: SparkSession, job: str) -> int:
    """Count the rows that Spark has dropped in the batch that a job's query is processing.

    Spark reports them only after it has committed the batch; a kill in between would lose the count. So it is read
    from the plan that was just executed, and stored with the batch.
    """
    query: Any = next(each for each in spark.streams.active if each.name == job)
    metrics = (node.metrics() for node in _nodes(query._jsq.streamingQuery().lastExecution().executedPlan()))
    return sum(int(each.apply(METRIC).value()) for each in metrics if each.contains(METRIC))


def refuse_dropped_rows(job: Job, settings: Settings, target: TableGenerations) -> None:
    """Raise an error if Spark has dropped rows of a job since it was last reset."""
    error = dropped_rows(job, settings, target)
    if error:
        raise error


def dropped_rows(job: Job, settings: Settings, target: TableGenerations) -> LakehouseError | None:
    """Return the error that names the rows that Spark has dropped since a job was last reset, or None."""
    generation = target.of_job(job)
    epoch = last_checkpoint(job, settings, generation).epoch
    rows = batch_log.dropped(settings, job.name, generation, epoch)
    if not rows:
        return None
    again = f"lakehouse stream reset {job.name}"
    if target.replay == generation:
        again = f"lakehouse replay drop {generation}   (then: lakehouse replay run)"
    return LakehouseError(
        f"'{job.name}' stopped: Spark dropped {rows:,} row{'s' if rows > 1 else ''} that arrived after their window "
        "had closed. Partitions were read further apart than streaming.skew_minutes allows.",
        f"Raise streaming.skew_minutes, then rebuild the table: {again}",
    )


def _nodes(plan: Any) -> Iterator[Any]:
    """List the operators of a physical plan."""
    yield plan
    children = plan.children()
    for index in range(children.size()):
        yield from _nodes(children.apply(index))
