"""Costs: seconds, CPU-seconds of this process and its JVM, peak memory and bytes written by a piece of work."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
from pyspark.sql import SparkSession

from config.declarations import table_named
from config.settings import Settings
from lake.location import Location, table_location
from lake.tables import append_next, arrow_schema, read_arrow

TABLE = "ops.costs"


@dataclass
class Cost:
    """What a piece of work cost; zero until it has ended."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    bytes_written: int = 0
    peak_memory: int = 0
    """Peak memory in bytes of this process plus that of its JVM, since they started."""


def total(costs: Iterable[Cost]) -> Cost:
    """Add up the costs of work that was done in several pieces."""
    found = Cost()
    for cost in costs:
        found.seconds += cost.seconds
        found.cpu_seconds += cost.cpu_seconds
        found.bytes_written += cost.bytes_written
        found.peak_memory = max(found.peak_memory, cost.peak_memory)
    return found


@contextmanager
def measured(spark: SparkSession, folder: Location) -> Iterator[Cost]:
    """Measure the work done inside, and how much a folder grew."""
    jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
    processes = [psutil.Process(), psutil.Process(jvm)]
    cost = Cost()
    began, cpu, size = time.monotonic(), _cpu_seconds(processes), folder.size()
    try:
        yield cost
    finally:
        cost.seconds = time.monotonic() - began
        cost.cpu_seconds = _cpu_seconds(processes) - cpu
        cost.bytes_written = max(folder.size() - size, 0)
        cost.peak_memory = sum(map(_peak_memory, processes))


def record_cost(settings: Settings, path: str, what: str, records: int, cost: Cost, *, whole: bool = True) -> None:
    """Record what a path cost, for the scorecard.

    whole: whether it processed all of history, not only what was new.
    """
    table = table_named(TABLE)
    row = {
        **asdict(cost),
        "path": path,
        "what": what,
        "records": records,
        "whole": whole,
        "recorded_at": datetime.now(UTC),
    }
    rows = pa.Table.from_pylist([row], arrow_schema(table))
    # A folder for each path: each process writes its own table.
    append_next(table_location(settings, table.name) / path, rows, "cost")


def recorded_costs(settings: Settings) -> list[dict[str, Any]]:
    """Read the recorded costs of every path, in order."""
    folders = table_location(settings, TABLE).children()
    rows = [row for folder in folders for row in read_arrow(folder).to_pylist()]
    return sorted(rows, key=lambda row: row["recorded_at"])


def _cpu_seconds(processes: list[psutil.Process]) -> float:
    """Add up the CPU time that processes have had; one that has ended adds nothing."""
    return sum(_cpu(process) for process in processes)


def _cpu(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def _peak_memory(process: psutil.Process) -> int:
    """Return the most memory a process has had; where the system does not record it (macOS), what it has now."""
    try:
        status = Path(f"/proc/{process.pid}/status")
        lines = status.read_text().splitlines() if status.exists() else []
        peaks = [int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")]
        return peaks[0] if peaks else int(process.memory_info().rss)
    except (psutil.NoSuchProcess, OSError):
        return 0
