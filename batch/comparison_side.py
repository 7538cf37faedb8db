"""The batch layer's published tables, as one side of a comparison."""

from pyspark.sql import SparkSession

from batch import fence, publications
from batch.run import frames
from config.settings import Settings
from expectations.parity.comparison import Side

TITLE = "the batch layer"


def batch_side(spark: SparkSession, settings: Settings) -> Side | None:
    """Return the published tables as one side of a comparison, or None if nothing is published."""
    served = publications.served(settings)
    if served is None:
        return None
    found = frames(spark, settings, served.tables)
    complete = fence.of_run(settings, served.run).complete_until
    return Side("batch", found.__getitem__, frozenset(found), lambda _: complete, run=served.run)


side = batch_side  # the name by which a certificate finds the sides that it compares a replay with
