"""Benchmark of the simulator: its bulk load against Spark writing the same rows ready-made, in the same session."""

import shutil
import time
from collections.abc import Callable
from statistics import median

from pyspark.sql import SparkSession

from benchmarks._timing import took
from config.kafka import ensure_topics, let_producers_stamp
from config.settings import Settings
from local.simulator import bulk
from local.simulator.plan import Plan
from local.simulator.shop import shard_batch

EVENTS = 800_000
ROUNDS = 3


def run(settings: Settings, spark: SparkSession) -> dict[str, float]:
    """Measure records per second, the median of some rounds; for a home of its own, as no truth is written."""
    ensure_topics(settings)
    let_producers_stamp(settings)
    plan = Plan(seed=time.time_ns(), events=EVENTS)
    rows = settings.home / "tmp" / "benchmark-simulator"
    bulk.Load(settings, spark, Plan(seed=plan.seed + 1, events=50_000)).run()  # compiles what both will use
    frame, truths = bulk.generated(spark, plan)
    frame.write.mode("overwrite").parquet(str(rows))
    records = sum(sum(truth.records.values()) for truth in truths().values())
    ready = spark.read.parquet(str(rows))
    works: dict[str, Callable[[], object]] = {
        "generator": lambda: shard_batch(plan, 0),
        "ready": lambda: bulk.write(ready, settings, spark, plan),
        "bulk": lambda: bulk.Load(settings, spark, plan).run(),
    }
    # By turns, so that whatever else the machine does disturbs all alike.
    rounds = [{name: took(work) for name, work in works.items()} for _ in range(ROUNDS)]
    seconds = {name: median(turn[name] for turn in rounds) for name in works}
    shutil.rmtree(rows, ignore_errors=True)
    return {
        "records": records,
        "generator_records_per_second_and_core": round(shard_batch(plan, 0).num_rows / seconds["generator"]),
        "ready_made_records_per_second": round(records / seconds["ready"]),
        "bulk_records_per_second": round(records / seconds["bulk"]),
        "ratio": round(seconds["ready"] / seconds["bulk"], 2),
    }
