"""The whole chain, in its long form: records are landed, streamed and published by our jobs, then built by dbt."""

from collections.abc import Iterator
from typing import Any

import pytest
from dbt_process import DbtProcess
from gold import catch_up, records_of
from handmade import Lake
from pyspark.sql import SparkSession

from batch.run import run as run_batch
from config.settings import Settings
from local.catalog import Catalog
from tests.models.conftest import GOLD, PLAN, Built, Wanted, environ
from tests.models.test_lambda import expected, fence_of

pytestmark = [pytest.mark.slow, pytest.mark.guides]


@pytest.fixture(scope="module")
def whole(spark: SparkSession, settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    """Land, publish what has landed, land the rest, stream it all, and build."""
    own = settings.at(tmp_path_factory.mktemp("whole") / "a home")
    lake = Lake(spark, own)
    records = records_of(PLAN)
    published = len(records) * 3 // 5
    lake.land(records[:published])
    assert run_batch(spark, own, full=True, on_step=lambda _: None).publication
    lake.land(records[published:])
    catch_up(lake)
    process = DbtProcess(own, environ(own))
    try:
        yield Built(own, records, published, process, process.dbt("build"))
    finally:
        process.stop()
        Catalog(own).stop()


def test_both_answers_equal_the_oracles(whole: Built) -> None:
    wanted: Any = Wanted(whole)
    merged = expected(whole, wanted, fence_of(whole))
    for table in GOLD:
        name = table.name.partition(".")[2]
        wanted.compare(whole.answers[f"kappa_{name}"], wanted.kappa(name))
        wanted.compare(whole.answers[f"lambda_{name}"], merged[name])


def test_a_session_in_another_process_keeps_its_settings(spark: SparkSession, whole: Built) -> None:
    assert "Completed successfully" in whole.said
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
    assert (whole.settings.home / "logs" / "dbt.log").exists()
