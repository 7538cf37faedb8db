"""Bounded windows: from counts per minute, exactly the rows of Spark's windows."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from streaming.bounded import recompute
from streaming.job import job_named

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
CLICKS = "silver.clicks_enriched"
Views = list[tuple[datetime, str]]


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Callable[[Views], dict[str, DataFrame]]:
    """Make page views of products, one of them of another tier, beside a click, which counts nowhere."""

    def made(views: Views) -> dict[str, DataFrame]:
        rows = [
            ("page_view", at, product, "gold" if number else "basic", None if number % 3 == 2 else number)
            for number, (at, product) in enumerate(views)
        ]
        rows.append(("click", views[0][0], "p", "gold", None))
        ddl = "type string, event_time timestamp, product_id string, tier string, dwell_ms bigint"
        return {CLICKS: spark.createDataFrame(rows, ddl).localCheckpoint()}

    return made


def ranked(counts: DataFrame) -> DataFrame:
    """Rank the counts of whole windows as the table declares it."""
    place = Window.partitionBy("window_start").orderBy(F.desc("views"), "product_id")
    rows = counts.withColumn("rank", F.row_number().over(place)).filter("rank <= 10")
    return rows.select("window_start", "window_end", "rank", "product_id", "views", "day")


EDGES = [
    pytest.param([(NOON, "a"), (NOON - MILLISECOND, "a"), (NOON + timedelta(minutes=1), "a")], id="edges of minutes"),
    pytest.param([(NOON + timedelta(minutes=step), "a") for step in range(-6, 6)], id="edges of hours"),
    pytest.param([(NOON + timedelta(hours=12, seconds=step), "a") for step in (-1, 0, 30)], id="midnight"),
    pytest.param([(datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC), "a")], id="before 1970"),
    pytest.param([(NOON, f"p{number:02d}") for number in range(13)], id="more products than ranks, at equal views"),
    pytest.param([(NOON, "b"), (NOON, "a"), (NOON + timedelta(minutes=4), "b")], id="more views first"),
]


@pytest.mark.parametrize("views", EDGES)
def test_trending_products_are_those_of_sliding_windows(
    tables: Callable[[Views], dict[str, DataFrame]], views: Views
) -> None:
    inputs, job = tables(views), job_named("trending")
    rows = sorted(recompute(job, inputs).collect())
    assert rows == sorted(ranked(job.apply(inputs)).collect())
    assert rows


@pytest.mark.parametrize("views", EDGES)
def test_views_are_those_of_tumbling_windows(tables: Callable[[Views], dict[str, DataFrame]], views: Views) -> None:
    inputs, job = tables(views), job_named("views_per_minute")
    found, expected = recompute(job, inputs), job.apply(inputs)
    assert sorted(map(repr, found.collect())) == sorted(map(repr, expected.collect()))
    assert found.schema.simpleString() == expected.schema.simpleString()
    assert sum(row.views for row in found.collect()) == len(views)
