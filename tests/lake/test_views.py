"""Views: a query for one job's rows in a shared table opens no folder of the other jobs."""

from datetime import UTC, datetime
from pathlib import Path

import deltalake
import pyarrow as pa
from pyspark.sql import SparkSession

from config.declarations import table_named
from config.settings import Settings
from lake.location import table_location
from lake.tables import arrow_schema
from lake.views import table_views as views

TABLE = table_named("ops.batches")


def recorded(home: Settings, generation: int, job: str, without: tuple[str, ...] = ()) -> None:
    """Write the folder of a job with one batch."""
    row = {"job": job, "generation": generation, "epoch": 1, "batch": 7, "written": 3, "by_request": False}
    rows = pa.Table.from_pylist([row | {"recorded_at": datetime.now(UTC)}], arrow_schema(TABLE))
    path = table_location(home, TABLE.name) / f"g{generation}" / job
    Path(str(path.parent)).mkdir(parents=True, exist_ok=True)
    deltalake.write_deltalake(str(path), rows.drop_columns(list(without)))


def test_the_folders_of_all_jobs_are_one_table(spark: SparkSession, fresh_home: Settings) -> None:
    recorded(fresh_home, 1, "sessions")
    recorded(fresh_home, 2, "sessions")
    recorded(fresh_home, 1, "trending", without=("by_request",))
    rows = spark.sql(views(fresh_home)[TABLE.name])
    assert rows.columns == list(TABLE.stored)
    assert {(row.generation, row.job, row.batch, row.by_request) for row in rows.collect()} == {
        (1, "sessions", 7, False),
        (2, "sessions", 7, False),
        (1, "trending", 7, None),  # written before the column was declared
    }


def test_who_asks_for_some_jobs_opens_only_their_folders(spark: SparkSession, fresh_home: Settings) -> None:
    for job in ("sessions", "trending", "ad_clicks"):
        recorded(fresh_home, 1, job)
    asked = spark.sql(f"select batch from ({views(fresh_home)[TABLE.name]}) where job in ('trending', 'ad_clicks')")
    assert sorted(file.rpartition("/g1/")[2].partition("/")[0] for file in asked.inputFiles()) == [
        "ad_clicks",
        "trending",
    ]
