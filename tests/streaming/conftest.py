"""Empty logs and empty tables to land them in."""

from collections.abc import Callable

import pytest
from handmade import Lake, Log
from pyspark.sql import SparkSession

from config.settings import Settings


@pytest.fixture
def log() -> Log:
    """An empty log."""
    return Log()


@pytest.fixture
def lake(spark: SparkSession, fresh_home: Settings) -> Lake:
    """Empty tables."""
    return Lake(spark, fresh_home)


@pytest.fixture
def another_lake(
    spark: SparkSession, fresh_home: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], Lake]:
    """Make further empty tables to compare with."""
    return lambda: Lake(spark, fresh_home.at(tmp_path_factory.mktemp("lake")))
