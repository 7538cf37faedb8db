"""Benchmark of recomputing history: batch layer, replay, comparison, report and DuckDB on one archive, at two sizes.

`BENCH_EVENTS=100000,400000` measures other sizes.
"""

import os
import subprocess
import sys
from typing import Any

from pyspark.sql import SparkSession

from batch.comparison_side import batch_side
from batch.run import run as run_batch
from benchmarks._archive import ARCHIVE, archive
from benchmarks._memory import memory
from benchmarks._timing import took
from benchmarks.landing import parsed_events, write_nowhere
from config.declarations import topics
from config.settings import ROOT, Settings
from expectations.parity.comparison import compared
from expectations.parity.sides import generation_side
from lake import generations
from lake.location import storage, table_location
from local.simulator.plan import Plan
from replay import manifest
from replay.run import run as run_replay
from streaming.job import jobs

SIZES = tuple(int(each) for each in os.environ.get("BENCH_EVENTS", "1000000,10000000").split(","))
A_DAY = 1_000_000
LIVE = 1_000 * 24 * 60 * 60
"""Events of a day at a thousand a second."""

# Each in a process of its own: what it holds in memory is its own, and DuckDB sees nothing of the project.
DUCKDB = """
import sys, time
from oracle import Oracle, from_bronze
from oracle.answers import tables
began = time.perf_counter()
oracle = Oracle(from_bronze(sys.argv[1]))
for name in tables():
    oracle.table(name, late_counts=False)
print(time.perf_counter() - began)
"""

# Not getrusage: its value includes the memory of the parent process, often more than the script needs.
PEAK = """
print(*(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
REPORT = """
import time
began = time.perf_counter()
from config.settings import load_settings
from dashboard.report import write
write(load_settings())
print(time.perf_counter() - began)
"""


def run(settings: Settings, spark: SparkSession) -> dict[str, Any]:
    """Measure each path at each size; say how it grows."""
    found = {}
    for events in SIZES:
        found[events] = _measured(settings, spark, events)
        print(events, found[events], flush=True)  # it takes long: what is known is said at once
    first, last = min(found), max(found)
    figures = {f"{name}_of_{events}": value for events, each in found.items() for name, value in each.items()}
    grown = found[last]["records"] / found[first]["records"]
    for path in ("batch", "replay", "compare", "report", "duckdb"):
        times = found[last][f"{path}_seconds"] / found[first][f"{path}_seconds"]
        figures[f"{path}_growth_to_linear"] = round(times / grown, 2)
    return figures


def _measured(settings: Settings, spark: SparkSession, events: int) -> dict[str, Any]:
    for folder in ("warehouse", "checkpoints", "replays"):
        (storage(settings) / folder).remove()
    records = archive(spark, settings, Plan(seed=1, events=events, days=max(events // A_DAY, 1)))
    names = [name for name, topic in topics().items() if topic.archived]
    bronze = spark.read.format("delta").load(str(table_location(settings, ARCHIVE)))
    limit = took(lambda: write_nowhere(bronze.select(*parsed_events(names))))
    with memory(spark) as used:
        result = run_batch(spark, settings, full=True, on_step=_nothing)
        todo = manifest.new(settings, list(jobs().values()), "bronze", "earliest")
        built = run_replay(spark, settings, todo)
        differing: list[int] = []

        def compare() -> None:
            ours, theirs = batch_side(spark, settings), generation_side(spark, settings, built.target, "replay")
            assert ours
            differing.extend(each.parity.rows for each in compared(settings, ours, theirs, watch=_nothing).values())

        seconds = took(compare)
    # Served, so that the report reads it as one of its answers.
    generations.switch(settings, dict.fromkeys(built.tables, built.generation), "promote")
    report, report_peak = _alone(REPORT, LAKEHOUSE_HOME=str(settings.home))
    archived = str(table_location(settings, ARCHIVE))
    duckdb, peak = _alone(DUCKDB, archived, PYTHONPATH=str(ROOT / "tests" / "support"))
    assert result.publication
    return {
        "records": records,
        "limit_records_per_second": round(records / limit),
        "batch_seconds": round(result.cost.seconds, 1),
        "batch_share_of_limit": round(limit / result.cost.seconds, 2),
        "checks_share_of_batch": round(result.audit_seconds / result.cost.seconds, 2),
        "replay_seconds": round(built.seconds, 1),
        "replay_share_of_limit": round(limit / built.seconds, 2),
        "replay_real_time_factor": round(records / built.seconds * 24 * 60 * 60 / LIVE, 1),
        "compare_seconds": round(seconds, 1),
        "rows_that_differ": sum(differing),
        "report_seconds": round(report, 1),
        "report_memory_peak_gib": round(report_peak / 2**30, 2),
        "duckdb_seconds": round(duckdb, 1),
        "batch_to_duckdb": round(result.cost.seconds / duckdb, 1),
        "memory_peak_gib": round(max(used) / 2**30, 2),
        "duckdb_memory_peak_gib": round(peak / 2**30, 2),
    }


def _alone(script: str, *arguments: str, **environ: str) -> tuple[float, float]:
    """Run a script; return its duration and the peak memory that it prints."""
    done = subprocess.run(
        [sys.executable, "-c", script + PEAK, *arguments],
        cwd=ROOT,
        env=os.environ | environ,
        text=True,
        stdout=subprocess.PIPE,
        check=True,
    )
    seconds, peak = map(float, done.stdout.split()[-2:])  # before them, DuckDB shows how far it is
    return seconds, peak


def _nothing(_: str) -> None:
    """Watch nothing."""
