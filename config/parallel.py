"""Independent pieces of work in parallel threads: for small tables, most of the time Spark plans and commits."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_parallel(work: Callable[[Item], Result], items: Iterable[Item], threads: int) -> list[Result]:
    """Do the work on every item, in as many threads; return the results in the order of the items."""
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, items))
