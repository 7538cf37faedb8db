"""One job's error stops that job alone; a batch that keeps failing is named, searched, and not repeated forever."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest
from gold import configured
from handmade import NOON, Lake, Log, click
from payments import until
from pyspark.sql import functions as F

from config.errors import LakehouseError
from lake import batch_log
from lake.batch import Batch
from lake.generations import serving
from lake.location import table_location
from streaming import poison
from streaming.checkpoint import last_checkpoint
from streaming.failures import Failures
from streaming.job import Job, job_named
from streaming.runner import Runner

POISON = "the product that nobody can sell"


def poisoned(job: Job) -> Job:
    """Return a job that fails, in Spark, for one product."""
    fails = F.when(F.col("product_id") == POISON, F.raise_error(F.lit("cannot sell"))).otherwise(F.col("product_id"))

    def process(batch: Batch) -> None:
        job.process(replace(batch, rows=batch.rows.withColumn("product_id", fails)))

    return replace(job, process=process, module="")  # no module: its code is not compared with that of the fix


def clicks(log: Log) -> None:
    for number in range(5):
        product = POISON if number == 3 else f"p{number}"
        log.send(click(f"e{number}", NOON + timedelta(seconds=number), product_id=product))


def test_a_batch_that_keeps_failing_stops_its_job_alone_and_its_record_is_found(lake: Lake, log: Log) -> None:
    clicks(log)
    lake.land(log.records)
    broken, views = poisoned(job_named("clicks_enriched")), job_named("views_per_minute")
    other = replace(job_named("clicks_enriched"), name="other")
    for _ in range(3):
        with pytest.raises(LakehouseError, match=r"2 jobs failed[\s\S]*cannot sell") as failed:
            Runner(lake.settings, lake.spark).run([broken, views], until_caught_up=True)
    assert "'views_per_minute' was not started: it reads silver.clicks_enriched" in failed.value.problem
    with pytest.raises(LakehouseError, match="its batch 0 has failed 3 times") as refused:
        Runner(lake.settings, lake.spark).run([broken], until_caught_up=True)
    assert "reads commits 0-1 of silver.clicks" in refused.value.problem
    assert "cannot sell" in refused.value.problem
    assert "lakehouse stream bisect clicks_enriched" in refused.value.hint

    target, checkpoint = serving(lake.settings), last_checkpoint(broken, lake.settings)
    (found,) = poison.find(broken, checkpoint, 0, lake.settings, target, lake.spark)
    assert found.ranges == {("silver.clicks", 0): (3, 4)}
    assert "cannot sell" in found.error
    assert not table_location(lake.settings, "silver.clicks_enriched", poison.SCRATCH).exists()
    assert not batch_log.folder(lake.settings, "clicks_enriched", poison.SCRATCH).exists()
    assert not list(poison.find(other, checkpoint, 0, lake.settings, target, lake.spark))

    # The code is fixed: the batch is tried again.
    fixed = Runner(lake.settings, lake.spark, retry=True)
    fixed.run([job_named("clicks_enriched"), views], until_caught_up=True)
    assert table_location(lake.settings, "silver.clicks_enriched").table().count() == 5


def test_live_the_other_jobs_keep_running(lake: Lake, log: Log) -> None:
    clicks(log)
    lake.land(log.records)
    configured(lake, table_trigger_seconds=0)
    failed: list[LakehouseError] = []
    runner = Runner(lake.settings, lake.spark)
    jobs = [poisoned(job_named("clicks_enriched")), job_named("ad_clicks")]
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(runner.run, jobs, until_caught_up=False, on_failure=failed.append)
        try:
            until(lambda: bool(failed and last_batch(lake)) or running.done(), seconds=300)
            before = last_batch(lake)
            log.send(click("later", NOON + timedelta(hours=1)))
            lake.land(log.records[-1:])
            until(lambda: last_batch(lake) != before or running.done(), seconds=300)
        finally:
            runner.stop()
        with pytest.raises(LakehouseError, match="its batch 0 has failed 3 times"):
            running.result()
    assert len(failed) == 1
    assert last_batch(lake) != before


def last_batch(lake: Lake) -> object:
    return batch_log.last_batch(lake.settings, "ad_clicks")


def test_an_error_names_every_job_that_failed_and_its_fix() -> None:
    failures = Failures(None)
    for name in ("landing", "clicks_enriched"):
        failures.add(job_named(name), LakehouseError(f"'{name}' stopped.", f"fix {name}"))
    with pytest.raises(LakehouseError) as raised:
        failures.raise_any()
    for part in ("2 jobs failed", "'landing' stopped.", "fix landing", "'clicks_enriched' stopped.", "fix clicks_en"):
        assert part in str(raised.value)
