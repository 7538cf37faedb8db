"""Memory, as all benchmarks measure it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


@contextmanager
def memory(spark: SparkSession) -> Iterator[list[int]]:
    """Sample the resident memory of the session's JVM and of this process together, once a second."""
    used: list[int] = []
    done = threading.Event()
    pid = _jvm_pid(spark)

    def sample() -> None:
        while not done.wait(1):
            used.append(_resident(pid) + _resident("self"))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield used
    finally:
        done.set()
        thread.join()


def _resident(pid: int | str) -> int:
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def _jvm_pid(spark: SparkSession) -> int:
    jvm: Any = spark._jvm
    return int(jvm.java.lang.ProcessHandle.current().pid())
