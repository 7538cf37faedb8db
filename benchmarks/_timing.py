"""Timing, as all benchmarks do it."""

import time
from collections.abc import Callable


def took(work: Callable[[], object]) -> float:
    """Give the seconds that some work takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin
