"""The batch layer's published tables, as one side of a comparison."""

from pyspark.sql import DataFrame, SparkSession

from batch import fence, publications
from batch.run import frames
from config.declarations import table_named
from config.settings import Settings
from expectations.parity.sides import Side

TITLE = "the batch layer"


def batch_side(spark: SparkSession, settings: Settings) -> Side | None:
    """Return the published tables as one side of a comparison, or None if nothing is published."""
    served = publications.served(settings)
    if served is None:
        return None
    found = frames(spark, settings, served.tables)
    read = fence.of_run(settings, served.run)

    def frame(name: str) -> DataFrame:
        return found[name] if name in found else spark.createDataFrame([], table_named(name).ddl)

    return Side(
        name="batch",
        frame=frame,
        tables=frozenset(found),
        closed_until=lambda _: read.complete_until,
        ranges={partition: (0, end) for partition, end in read.offsets.items()},
        run=served.run,
    )


side = batch_side  # the name by which a certificate finds the sides that it compares a replay with
