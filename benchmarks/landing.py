"""Benchmark of landing: its rate against the limit, on the same records in the same run, and its memory."""

from statistics import median
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks._memory import memory
from benchmarks._timing import took
from config.declarations import topics
from config.kafka import end_offsets, spark_options, spark_source_options
from config.settings import Settings
from config.terminal import Terminal
from lake.location import storage, warehouse
from local.simulator.plan import Plan
from local.simulator.run import simulate
from streaming.job import job_named
from streaming.landing.contract import CORRUPT
from streaming.landing.parse import JSON_OPTIONS
from streaming.runner import Runner

EVENTS = 2_000_000
QUIET = Terminal(quiet=True)


def run(settings: Settings, spark: SparkSession) -> dict[str, Any]:
    """Measure the limit (Kafka, parsed, nowhere) and landing in full; say how memory went."""
    names = [name for name, topic in topics().items() if topic.archived]
    simulate(settings, Plan(seed=1, events=EVENTS), QUIET)
    records = sum(end_offsets(settings, names).values())
    # Each twice: in the first the JVM still compiles, for the limit as for landing.
    ours = spark_source_options(settings)
    cold_limit, limit = (took(lambda: write_nowhere(_parsed(spark, names, ours))) for _ in range(2))
    # As an ordinary query reads Kafka, without our settings of its consumer: what these are worth.
    ordinary = took(lambda: write_nowhere(_parsed(spark, names, spark_options(settings))))
    cold = _landed(settings, spark)
    with memory(spark) as used:
        landing = _landed(settings, spark)
    third = len(used) // 3
    return {
        "records": records,
        "limit_records_per_second": round(records / limit),
        "landing_records_per_second": round(records / landing),
        "landing_share_of_limit": round(limit / landing, 2),
        "ordinary_reading_records_per_second": round(records / ordinary),
        "landing_share_of_ordinary_reading": round(ordinary / landing, 2),
        "limit_records_per_second_from_a_cold_start": round(records / cold_limit),
        "landing_records_per_second_from_a_cold_start": round(records / cold),
        "landing_share_of_limit_from_a_cold_start": round(cold_limit / cold, 2),
        "memory_peak_gib": round(max(used) / 2**30, 2),
        "memory_last_third_to_middle": round(median(used[2 * third :]) / median(used[third : 2 * third]), 2),
    }


def _landed(settings: Settings, spark: SparkSession) -> float:
    """Land all that is in the log into empty tables; give the seconds."""
    for folder in (warehouse(settings), storage(settings) / "checkpoints"):
        folder.remove()
    return took(lambda: Runner(settings, spark).run([job_named("landing")], until_caught_up=True))


def write_nowhere(rows: DataFrame) -> None:
    """Compute rows, and throw them away."""
    rows.write.format("noop").mode("overwrite").save()


def _parsed(spark: SparkSession, names: list[str], options: dict[str, str]) -> DataFrame:
    """Read the log and parse every record: what any landing must at least do."""
    log = spark.read.format("kafka").options(**options).option("subscribe", ",".join(names)).load()
    return log.select(*parsed_events(names))


def parsed_events(names: list[str]) -> list[Column]:
    """Parse each topic's records by its own schema."""
    text = F.col("value").cast("string")
    return [
        F.when(
            F.col("topic") == name,
            F.from_json(text, f"{topics()[name].payload_ddl}, {CORRUPT} string", JSON_OPTIONS),
        ).alias(name)
        for name in names
    ]
