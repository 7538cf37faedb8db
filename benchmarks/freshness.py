"""Benchmark of freshness: from Kafka to silver at 1,000 events/s, against the usual chain of two plain queries."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import deltalake
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

from benchmarks.landing import parsed_events
from config.declarations import topics
from config.kafka import end_offsets, spark_options
from config.settings import Settings
from local.simulator.plan import Plan
from local.simulator.run import simulate
from streaming.job import job_named
from streaming.runner import Runner

WARM_EVENTS = 50_000
LIVE_RATE = 1_000
LIVE_SECONDS = 60
QUIET = Console(quiet=True)


def run(settings: Settings, spark: SparkSession) -> dict[str, Any]:
    """Measure both shapes under the same load, one after the other, in a session warmed by a first landing."""
    simulate(settings, Plan(seed=1, events=WARM_EVENTS), QUIET)
    Runner(settings, spark).run([job_named("landing")], until_caught_up=True)
    silver = settings.warehouse / "silver" / "clicks" / "g1"
    ours = _freshness(settings, 2, lambda: _land(settings, spark), silver)
    naive = _freshness(settings, 3, lambda: _naive(settings, spark), settings.home / "naive" / "silver")
    return {
        "events_per_second": LIVE_RATE,
        "freshness_p50_seconds": ours[0],
        "freshness_p95_seconds": ours[1],
        "naive_freshness_p50_seconds": naive[0],
        "naive_freshness_p95_seconds": naive[1],
        "freshness_to_naive": round(ours[0] / naive[0], 2),
    }


def _freshness(
    settings: Settings, seed: int, start: Callable[[], Callable[[], None]], silver: Path
) -> tuple[float, float]:
    """Give p50 and p95, over commits, of how long the oldest record of a commit waited from Kafka to silver."""
    produced: list[tuple[float, int]] = []
    before = end_offsets(settings, ["clicks"])[("clicks", 0)]
    stop = start()
    first = _version(silver)
    try:
        sending = threading.Thread(
            target=simulate,
            args=(settings, Plan(seed=seed, events=LIVE_RATE * LIVE_SECONDS, rate=LIVE_RATE), QUIET),
        )
        sending.start()
        while sending.is_alive():
            produced.append((time.time(), end_offsets(settings, ["clicks"])[("clicks", 0)]))
            time.sleep(0.1)
        sending.join()
        end = end_offsets(settings, ["clicks"])[("clicks", 0)]
        while max((high for *_, high in _commits(silver, first)), default=0) < end - 100:
            time.sleep(1)
    finally:
        stop()
    waits = []
    for moment, low, _ in _commits(silver, first):
        if low > before:
            waits.append(moment - next(when for when, offset in produced if offset > low))
    return round(median(waits), 1), round(quantiles(waits, n=20)[-1], 1)


def _land(settings: Settings, spark: SparkSession) -> Callable[[], None]:
    runner = Runner(settings, spark)
    thread = threading.Thread(target=runner.run, args=([job_named("landing")],), kwargs={"until_caught_up": False})
    thread.start()

    def stop() -> None:
        runner.stop()
        thread.join()

    return stop


def _naive(settings: Settings, spark: SparkSession) -> Callable[[], None]:
    """Start the usual chain, with our Spark settings: Kafka -> bronze, bronze -> silver.clicks, two plain queries."""
    home = settings.home / "naive"
    names = [name for name, topic in topics().items() if topic.archived]
    ends: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in end_offsets(settings, names).items():
        ends.setdefault(topic, {})[str(partition)] = offset
    log = (
        spark.readStream.format("kafka")
        .options(**spark_options(settings))
        .option("subscribe", ",".join(names))
        .option("startingOffsets", json.dumps(ends))
        .load()
    )
    bronze = _append(log, home / "bronze", home / "bronze-checkpoint")
    while not (home / "bronze" / "_delta_log").exists():
        simulate(settings, Plan(seed=time.time_ns(), events=1000), QUIET)
        time.sleep(1)
    clicks = spark.readStream.format("delta").load(str(home / "bronze")).filter("topic = 'clicks'")
    typed = clicks.select("partition", "offset", *parsed_events(["clicks"])).select("partition", "offset", "clicks.*")
    silver = _append(typed, home / "silver", home / "silver-checkpoint")
    while not (home / "silver" / "_delta_log").exists():
        time.sleep(1)

    def stop() -> None:
        silver.stop()
        bronze.stop()

    return stop


def _append(rows: DataFrame, path: Path, checkpoint: Path) -> Any:
    writer = rows.writeStream.format("delta").option("checkpointLocation", str(checkpoint))
    return writer.trigger(processingTime="0 seconds").start(str(path))


def _version(path: Path) -> int:
    return deltalake.DeltaTable(str(path)).version()


def _commits(path: Path, after: int) -> list[tuple[float, int, int]]:
    """List the commits after a version: when, and the least and greatest offset of partition 0 in it."""
    table = deltalake.DeltaTable(str(path))
    moments = {entry["version"]: entry["timestamp"] / 1000 for entry in table.history()}
    found = []
    for version in range(after + 1, table.version() + 1):
        log = (path / "_delta_log" / f"{version:020}.json").read_text().splitlines()
        files = [json.loads(line)["add"] for line in log if line.startswith('{"add"')]
        offsets: list[int] = []
        for file in files:
            rows = pq.read_table(path / file["path"], columns=["partition", "offset"])
            offsets += [row["offset"] for row in rows.to_pylist() if row["partition"] == 0]
        if offsets:
            found.append((moments[version], min(offsets), max(offsets)))
    return found
