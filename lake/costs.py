"""Cost: what a piece of work took -> seconds, CPU-seconds of this process and its Spark, peak memory, bytes on disk."""

import os
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from config.declarations import table_named
from config.settings import Settings
from lake.tables import append_once, arrow_schema, read_arrow

TABLE = "ops.costs"


@dataclass
class Cost:
    """What was spent; zero until the work has ended."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    bytes_written: int = 0
    peak_memory: int = 0
    """The most memory, in bytes, that this process and its Spark have had at one time each, since they began."""


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
def measured(spark: SparkSession, folder: Path) -> Iterator[Cost]:
    """Measure what is done inside, and how much a folder grew by it."""
    processes = [os.getpid(), int(spark._jvm.java.lang.ProcessHandle.current().pid())]  # type: ignore[union-attr]
    cost = Cost()
    began, cpu, size = time.monotonic(), _cpu_seconds(processes), size_of(folder)
    try:
        yield cost
    finally:
        cost.seconds = time.monotonic() - began
        cost.cpu_seconds = _cpu_seconds(processes) - cpu
        cost.bytes_written = max(size_of(folder) - size, 0)
        cost.peak_memory = sum(_peak(process) for process in processes)


def record_cost(settings: Settings, path: str, what: str, records: int, cost: Cost, *, whole: bool = True) -> None:
    """Keep what a path cost, for the scorecard.

    whole: whether it went through all there was, not through what came, or had changed, meanwhile.
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
    # A folder for each path: several processes record what they cost, each in its own.
    append_once(table.path(settings.warehouse) / path, rows, "cost", time.time_ns() // 1000)


def recorded_costs(settings: Settings) -> list[dict[str, Any]]:
    """Read what every path has cost, in order."""
    folders = sorted(table_named(TABLE).path(settings.warehouse).glob("*"))
    rows = [row for folder in folders for row in read_arrow(folder).to_pylist()]
    return sorted(rows, key=lambda row: row["recorded_at"])


def size_of(folder: Path) -> int:
    """Add up the files under a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _cpu_seconds(processes: list[int]) -> float:
    """Add up the time that processes have had; `ps` knows only whole seconds on Linux, but the kernel tells more."""
    return sum(_linux_cpu(process) if Path("/proc").is_dir() else _ps_cpu(process) for process in processes)


def _linux_cpu(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _ps_cpu(process: int) -> float:
    told = subprocess.run(["ps", "-o", "time=", "-p", str(process)], capture_output=True, text=True, check=False).stdout
    seconds = 0.0
    for part in told.strip().replace("-", ":").split(":"):
        seconds = seconds * 60 + float(part or 0)
    return seconds


def _peak(process: int) -> int:
    status = Path(f"/proc/{process}/status")
    if not status.exists():
        return 0
    peaks = [line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM")]
    return sum(map(int, peaks)) * 1024  # a process that has just ended tells none
