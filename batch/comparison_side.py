"""What the batch layer has published, as one side of a comparison."""

from pyspark.sql import SparkSession

from batch import fence, publications
from batch.run import frames
from config.settings import Settings
from expectations.parity.comparison import Side


def batch_side(spark: SparkSession, settings: Settings) -> Side | None:
    """Take what the batch layer has published as an answer, if there is any."""
    served = publications.served(settings)
    if served is None:
        return None
    found = frames(spark, settings, served.tables)
    complete = fence.of_run(settings, served.run).complete_until
    return Side("batch", found.__getitem__, frozenset(found), lambda _: complete, run=served.run)
