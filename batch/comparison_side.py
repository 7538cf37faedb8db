"""The batch layer's published tables, as one side of a comparison."""

from pyspark.sql import SparkSession

from batch import code_versions, fence, publications
from batch.rebuild import Rebuild
from config.declarations import tables
from config.settings import Settings
from expectations.parity.sides import Side

TITLE = "the batch layer"


def batch_side(spark: SparkSession, settings: Settings) -> Side | None:
    """Return the published tables as one side of a comparison, or None if nothing is published.

    A table that the run computed without a row is one of them: rows that only the other side has must be found.
    """
    served = publications.served_publication(settings)
    if served is None:
        return None
    computed = {name for name in code_versions.of_run(settings, served.run) if name in tables()}
    read = fence.of_run(settings, served.run)
    return Side(
        name="batch",
        frame=Rebuild(spark, settings, "", served.tables).frame,
        tables=frozenset({*served.tables, *computed}),
        closed_until=lambda _: read.complete_until,
        ranges={partition: (0, end) for partition, end in read.offsets.items()},
        run=served.run,
    )


side = batch_side  # the name by which a certificate finds the sides that it compares a replay with
