"""Benchmark of the ledger check on logs of several sizes, cut into entries as those of a live day.

`BENCH_EVENTS=100000,400000` measures other sizes. The tables are written directly, with only what the check reads.
"""

import os
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks._timing import took
from config.declarations import Table, landed_tables, table_named
from config.kafka import Offsets, end_offsets
from config.settings import Settings
from config.terminal import Terminal
from expectations.ledger_check import LedgerCheck, check_ledger
from lake import ledger
from lake.batch import Batch
from lake.ledger import LANDING, TERMS
from lake.location import table_location
from lake.tables import create_missing
from local.simulator.plan import Plan
from local.simulator.run import simulate
from streaming.job import job_named
from streaming.landing.archive import between
from streaming.landing.arrival import as_archived

SIZES = tuple(int(each) for each in os.environ.get("BENCH_EVENTS", "1000000,10000000").split(","))
RECORDS_PER_ENTRY = 6_000
"""Of 100 million records of a live day, one partition has about 17,000 entries."""


def run(settings: Settings, spark: SparkSession) -> dict[str, Any]:
    """Measure a full check at each size, one with nothing new, and one after 10,000 new records."""
    create_missing(job_named(LANDING).writes, settings)
    figures: dict[str, Any] = {}
    full: dict[int, float] = {}
    for size in sorted(SIZES):
        _grow(settings, spark, size - sum(end_offsets(settings, _topics()).values()))
        records = sum(end_offsets(settings, _topics()).values())
        full[records] = took(lambda: _passes(check_ledger(spark, settings, full=True)))
        figures |= {f"records_of_{size}": records, f"entries_of_{size}": len(ledger.entries(settings))}
        figures[f"full_seconds_of_{size}"] = round(full[records], 1)
        figures[f"nothing_new_seconds_of_{size}"] = round(took(lambda: _passes(check_ledger(spark, settings))), 1)
        _grow(settings, spark, 10_000)
        figures[f"ten_thousand_new_seconds_of_{size}"] = round(took(lambda: _passes(check_ledger(spark, settings))), 1)
        print(figures, flush=True)  # it takes long: what is known is said at once
    low, high = min(full), max(full)
    if low < high:
        slope = (full[high] - full[low]) / (high - low)
        figures["full_seconds_of_100000000_extrapolated"] = round(full[high] + slope * (100_000_000 - high))
    return figures


def _passes(found: LedgerCheck) -> None:
    assert (found.faults, found.waiting) == ([], 0), found.faults


def _topics() -> list[str]:
    return [str(table.topic) for table in landed_tables()]


def _grow(settings: Settings, spark: SparkSession, events: int) -> None:
    """Add valid events to the log, and to the tables and the ledger as landing would."""
    before = end_offsets(settings, _topics())
    plan = Plan(seed=1 + sum(before.values()), events=events, late=0, duplicates=0, malformed=0)
    simulate(settings, plan, Terminal(quiet=True))
    after = end_offsets(settings, _topics())
    ranges = {
        partition: (before.get(partition, 0), end) for partition, end in after.items() if end > before.get(partition, 0)
    }
    records = as_archived(between(spark, settings, ranges))
    # On disk: millions of records in memory leave a heap of 2 GB no room to write them.
    records = records.withColumn("arrival_date", F.to_date("arrival_time")).persist(StorageLevel.DISK_ONLY)
    bronze = table_named("bronze.events")
    records.select(*bronze.stored).write.format("delta").mode("append").partitionBy(*bronze.partitioned_by).save(
        str(table_location(settings, bronze.name))
    )
    for table in landed_tables():
        rows = records.filter(F.col("topic") == F.lit(table.topic)).select(*_placed(table))
        rows.write.format("delta").mode("append").partitionBy(*table.partitioned_by).save(
            str(table_location(settings, table.name))
        )
    records.unpersist()
    _record(settings, before, after)


def _placed(table: Table) -> list[Any]:
    """Select the origin of a record, and nothing for the other columns."""
    known = {"partition": F.col("partition"), "offset": F.col("offset"), "arrival_time": F.col("arrival_time")}
    dates = {name: F.to_date("arrival_time") for name in table.partitioned_by}
    return [
        (known | dates).get(name, F.lit(None)).cast(column.type).alias(name) for name, column in table.stored.items()
    ]


def _record(settings: Settings, before: Offsets, after: Offsets) -> None:
    number = len({row["batch"] for row in ledger.entries(settings, [LANDING])})
    common: dict[str, Any] = {"rows": None, "job": LANDING, "epoch": 1, "generation": 1, "settings": settings}
    entry = []
    for (topic, partition), end in after.items():
        for batch, low in enumerate(range(before.get((topic, partition), 0), end, RECORDS_PER_ENTRY), number):
            high = min(low + RECORDS_PER_ENTRY, end)
            batch_of = {
                "job": LANDING,
                "generation": 1,
                "epoch": 1,
                "batch": batch,
                "topic": topic,
                "partition": partition,
            }
            counts: dict[str, Any] = dict.fromkeys(TERMS, 0) | {"input": high - low, "silver": high - low, "bytes": 0}
            entry.append({**batch_of, "from_offset": low, "to_offset": high, **counts})
    ledger.record_entry(entry, Batch(**common, id=number))
