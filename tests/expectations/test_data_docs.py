"""Data Docs: the project in the home is one that Great Expectations opens, and whose checkpoints it runs, by itself."""

from datetime import UTC, datetime, timedelta
from typing import Any

import great_expectations as gx
import great_expectations.expectations as gxe
import pytest
from handmade import Lake, Log, change, click
from pyspark.sql import SparkSession

from config.settings import Settings
from expectations import data_docs, layers
from lake.location import table_location

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.fixture
def landed(spark: SparkSession, fresh_home: Settings) -> Settings:
    """A home whose bronze and silver tables were checked, with their Data Docs."""
    lake, log = Lake(spark, fresh_home), Log()
    for day, tier in enumerate(("gold", "silver")):
        log.send(change(f"c{day}", NOON + timedelta(days=day), tier), topic="users")
    for number in range(4):
        log.send(click(f"e{number}"))
    log.send(click("e4", type="click", impression_id="i1", dwell_ms=...))
    log.send(click("e9", dwell_ms=-1))
    lake.land(log.records)
    publish(spark, fresh_home)
    return fresh_home


def publish(spark: SparkSession, settings: Settings) -> None:
    data_docs.publish(
        settings, [audit for layer in ("bronze", "silver") for audit in layers.check(spark, settings, layer)]
    )


def opened(settings: Settings) -> Any:
    """Open the project as a user of Great Expectations would."""
    return gx.get_context(mode="file", project_root_dir=settings.home / "reports" / "great-expectations")


def broken(checkpoint: Any) -> dict[tuple[str, str], int]:
    """Run a checkpoint; return the number of rows that break each expectation of each table."""
    return {
        (result.suite_name, each.expectation_config.meta["rule"]): each.result.get(
            "unexpected_count", each.result.get("observed_value")
        )
        for result in checkpoint.run().run_results.values()
        for each in result.results
        if not each.success
    }


def test_checkpoints_run_without_this_project_and_find_what_the_gate_finds(
    spark: SparkSession, landed: Settings
) -> None:
    project = opened(landed)
    assert {each.name for each in project.checkpoints.all()} == {"bronze", "silver"}
    kinds = {type(each) for suite in project.suites.all() for each in suite.expectations}
    assert all(getattr(gxe, kind.__name__, None) is kind for kind in kinds)  # nothing that only this project defines
    assert len(kinds) > 2
    for each in project.checkpoints.all():
        assert broken(each) == {}
    path = table_location(landed, "silver.clicks")
    spark.sql(f"update delta.`{path}` set dwell_ms = -5, user_id = 'u9' where event_id in ('e1', 'e3')")
    spark.sql(f"delete from delta.`{path}` where event_id = 'e2'")
    (found,) = layers.check(spark, landed, "silver")
    expected = {(each.table, each.rule): each.rows for each in found.findings if each.rows}
    assert expected == {
        ("silver.clicks", "dwell_not_negative"): 2,
        ("silver.clicks", "user_known"): 2,
        ("silver.clicks", "as_the_ledger_says"): 1,
    }
    assert broken(opened(landed).checkpoints.get("silver")) == expected


def test_documents_written_again_keep_their_identity(spark: SparkSession, landed: Settings) -> None:
    before = {each.name: each.id for each in opened(landed).checkpoints.all()}
    publish(spark, landed)
    project = opened(landed)
    assert {each.name: each.id for each in project.checkpoints.all()} == before
    assert broken(project.checkpoints.get("silver")) == {}
