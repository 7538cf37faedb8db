"""Benchmark of freshness at 1,000 events/s: from Kafka to silver and to gold, against the usual chain of plain queries.

Freshness is how long the oldest record of a commit has waited, from Kafka until the table has it.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import count, pairwise
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

import deltalake
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks._naive import NaiveChain
from config.kafka import end_offsets
from config.settings import Settings
from config.terminal import Terminal
from local.simulator.plan import Plan
from local.simulator.run import simulate
from streaming.checkpoint import last_checkpoint
from streaming.job import job_named
from streaming.runner import Runner

WARM_EVENTS = 50_000
LIVE_RATE = 1_000
LIVE_SECONDS = 60
GOLD = "revenue_per_hour"
QUIET = Terminal(quiet=True)


class Commit(NamedTuple):
    """A commit of silver: when, and the least and greatest offset of partition 0 in it."""

    version: int
    moment: float
    low: int
    high: int


@dataclass(frozen=True)
class Chain:
    """What is measured: how to start it, the silver table it fills, and the checkpoint of the query that follows it."""

    topic: str
    running: Callable[[], AbstractContextManager[None]]
    silver: Path
    gold: Path | None = None


class Days:
    """Plans of simulated days, one after the other: going back in time would make every event late."""

    def __init__(self) -> None:
        """Begin with the first day."""
        self._days = count()

    def next(self, events: int, rate: float | None = None) -> Plan:
        """Plan the next day."""
        day = next(self._days)
        return Plan(seed=day + 1, events=events, rate=rate, start=Plan().start + timedelta(days=day))


def run(settings: Settings, spark: SparkSession) -> dict[str, Any]:
    """Measure both shapes under the same load, one after the other, in a session warmed by a first landing."""
    days = Days()
    simulate(settings, days.next(WARM_EVENTS), QUIET)
    Runner(settings, spark).run([job_named("landing"), job_named(GOLD)], until_caught_up=True)

    def feed() -> None:
        simulate(settings, days.next(1_000), QUIET)

    clicks = NaiveChain(settings, spark, "clicks", feed)
    payments = NaiveChain(settings, spark, "payments", feed)
    silver = Path(settings.warehouse) / "silver"
    gold = Path(str(last_checkpoint(job_named(GOLD), settings).location))
    chains = {
        "silver": Chain("clicks", lambda: following(settings, spark, "landing"), silver / "clicks" / "g1"),
        "naive_silver": Chain("clicks", lambda: _naive(clicks, clicks.to_silver), clicks.home / "silver"),
        "gold": Chain(
            "payments", lambda: following(settings, spark, "landing", GOLD), silver / "payments" / "g1", gold
        ),
        "naive_gold": Chain(
            "payments",
            lambda: _naive(payments, payments.to_revenue),
            payments.home / "silver",
            payments.checkpoint("gold"),
        ),
    }
    figures: dict[str, Any] = {"events_per_second": LIVE_RATE}
    for name, chain in chains.items():
        figures |= percentiles(name, waits(settings, days, chain))
    for name in ("silver", "gold"):
        ratio = figures[f"{name}_p50_seconds"] / figures[f"naive_{name}_p50_seconds"]
        figures[f"{name}_to_naive"] = round(ratio, 2)
    return figures


def percentiles(name: str, seconds: list[float]) -> dict[str, float]:
    """Name the middle of some waits, and what nearly all are below."""
    return {
        f"{name}_p50_seconds": round(median(seconds), 1),
        f"{name}_p95_seconds": round(quantiles(seconds, n=20)[-1], 1),
    }


def waits(settings: Settings, days: Days, chain: Chain) -> list[float]:
    """Give, for each commit under load, how long its oldest record waited."""
    produced: list[tuple[float, int]] = []

    def end() -> int:
        return end_offsets(settings, [chain.topic])[(chain.topic, 0)]

    with chain.running():
        before, first = end(), _version(chain.silver)
        sending = threading.Thread(
            target=simulate, args=(settings, days.next(LIVE_RATE * LIVE_SECONDS, LIVE_RATE), QUIET)
        )
        sending.start()
        while sending.is_alive():
            produced.append((time.time(), end()))
            time.sleep(0.1)
        sending.join()
        last = end() - max(5, (end() - before) // 100)  # the very last may be late or broken, and never get there
        while not any(high >= last for *_, high in _seen(chain, first)):
            time.sleep(1)
    return [
        moment - next(when for when, offset in produced if offset > low)
        for moment, low, _ in _seen(chain, first)
        if low > before
    ]


def _seen(chain: Chain, after: int) -> list[tuple[float, int, int]]:
    """List when which records, from and to, were in the table that is measured."""
    commits = _commits(chain.silver, after)
    if chain.gold is None:
        return [commit[1:] for commit in commits]
    found = []
    for (_, before), (moment, until) in pairwise(_batches(chain.gold)):
        read = [commit for commit in commits if before < commit.version <= until]
        if read:
            found.append((moment, min(commit.low for commit in read), max(commit.high for commit in read)))
    return found


@contextmanager
def following(settings: Settings, spark: SparkSession, *names: str) -> Iterator[None]:
    """Run jobs in the background; each triggers immediately, because a few jobs do not compete for CPU."""
    streaming = settings.streaming.model_copy(update={"table_trigger_seconds": 0.0})
    settings = settings.model_copy(update={"streaming": streaming})
    jobs = [job_named(name) for name in names]
    Runner(settings, spark).run(jobs, until_caught_up=True)  # with what came while others were measured
    runner = Runner(settings, spark)
    thread = threading.Thread(target=runner.run, args=(jobs,), kwargs={"until_caught_up": False})
    thread.start()
    try:
        yield
    finally:
        runner.stop()
        thread.join()


@contextmanager
def _naive(chain: NaiveChain, start: Callable[[], None]) -> Iterator[None]:
    try:
        start()
        yield
    finally:
        chain.stop()


def _version(path: Path) -> int:
    return deltalake.DeltaTable(str(path)).version()


def _batches(checkpoint: Path) -> list[tuple[float, int]]:
    """List the batches of a query that follows a table: when each was done, and the last version it had read."""
    done = sorted((checkpoint / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    found = []
    for file in done:
        end = json.loads((checkpoint / "offsets" / file.name).read_text().splitlines()[2])
        # An index of -1 stands before the first file of a version.
        found.append((file.stat().st_mtime, end["reservoirVersion"] - (1 if end["index"] < 0 else 0)))
    return found


def _commits(path: Path, after: int) -> list[Commit]:
    """List the commits after a version."""
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
            found.append(Commit(version, moments[version], min(offsets), max(offsets)))
    return found
