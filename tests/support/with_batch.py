"""The batch layer in tests of other features: it publishes where the project has one."""

from importlib import import_module
from importlib.util import find_spec

from pyspark.sql import SparkSession

from config.settings import Settings
from expectations.parity.sides import Side


def publish(spark: SparkSession, settings: Settings) -> None:
    """Run the batch layer on everything that has landed, in a project that has one."""
    if find_spec("batch"):
        result = import_module("batch.run").run(spark, settings, full=True, on_step=lambda _: None)
        assert result.publication


def published(spark: SparkSession, settings: Settings) -> Side | None:
    """Return what the batch layer has published, in a project that has one."""
    side: Side | None = import_module("batch.comparison_side").side(spark, settings) if find_spec("batch") else None
    return side
