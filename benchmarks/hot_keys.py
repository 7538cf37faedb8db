"""Benchmark of salting: one job, salted and unsalted alternately, on clicks that are nearly all for one product."""

from statistics import median
from typing import Any

import deltalake
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks._timing import took
from config.declarations import table_named
from config.settings import Settings
from lake.location import storage, table_location, warehouse
from lake.tables import columns, create_missing
from streaming.job import job_named
from streaming.runner import Runner
from streaming.windows.salting import as_configured

CLICKS = 1_000_000
COMMITS = 4
HOT_SHARE = 0.9
SALTS = 8
ROUNDS = 3
JOB = "views_per_minute"


def run(settings: Settings, spark: SparkSession) -> dict[str, Any]:
    """Measure clicks per second of the whole run, the median of some rounds; both ways must give equal tables."""
    _write_clicks(settings, spark)
    ways = {"unsalted": {}, "salted": {JOB: SALTS}}
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    answers: dict[str, Any] = {}
    for turn in range(ROUNDS + 1):
        for way, salted in ways.items():
            streaming = settings.streaming.model_copy(update={"salted": salted})
            chosen = settings.model_copy(update={"streaming": streaming})
            _forget(settings)
            jobs = as_configured([job_named(JOB)], chosen)
            spent = took(lambda: Runner(chosen, spark).run(jobs, until_caught_up=True))  # noqa: B023 - runs at once
            answers[way] = _answer(settings)
            if turn:  # the first warms up
                seconds[way].append(spent)
    if answers["salted"] != answers["unsalted"]:
        raise AssertionError("salted and unsalted tables differ")
    rates = {way: CLICKS / median(spent) for way, spent in seconds.items()}
    return {
        "clicks": CLICKS,
        "hot_share": HOT_SHARE,
        "salts": SALTS,
        **{f"{way}_clicks_per_second": round(rate) for way, rate in rates.items()},
        "salted_to_unsalted": round(rates["salted"] / rates["unsalted"], 2),
    }


def _write_clicks(settings: Settings, spark: SparkSession) -> None:
    """Write page views of an hour, in order, in some commits."""
    table = table_named("silver.clicks_enriched")
    create_missing((table.name,), settings, 1)
    for commit in range(COMMITS):
        share = CLICKS // COMMITS
        ids = spark.range(commit * share, (commit + 1) * share)
        second = F.col("id") / (CLICKS / 3600)
        known = {
            "event_id": F.col("id").cast("string"),
            "type": F.lit("page_view"),
            "event_time": F.timestamp_seconds(F.lit(1_767_614_400) + second),
            "product_id": F.when(F.rand(7) < HOT_SHARE, "hot").otherwise(F.concat(F.lit("p"), F.col("id") % 500)),
            "tier": F.lit("gold"),
            "dwell_ms": (F.col("id") % 1000).cast("bigint"),
        }
        rows = ids.select(*(known.get(name, F.lit(None)).alias(name) for name in table.stored))
        rows = rows.withColumn("event_date", F.to_date("event_time")).select(*columns(table))
        rows.write.format("delta").mode("append").save(str(table_location(settings, table.name)))


def _forget(settings: Settings) -> None:
    for folder in (storage(settings) / "checkpoints", warehouse(settings) / "gold", warehouse(settings) / "ops"):
        folder.remove()


def _answer(settings: Settings) -> list[dict[str, Any]]:
    path = str(table_location(settings, f"gold.{JOB}"))
    rows = deltalake.DeltaTable(path).to_pyarrow_dataset().to_table(use_threads=False)
    return list(rows.sort_by([("window_start", "ascending"), ("product_id", "ascending")]).to_pylist())
