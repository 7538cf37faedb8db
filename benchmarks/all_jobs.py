"""Benchmark of all jobs at once at a steady rate: how far behind they are after 2, 5 and 10 minutes, and how large."""

import os
import subprocess
import sys
import threading
import time
from datetime import timedelta
from statistics import median
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from benchmarks._memory import memory
from config.kafka import end_offsets
from config.settings import ROOT, Settings
from config.terminal import Terminal
from lake import ledger
from local.simulator.plan import Plan
from local.simulator.run import simulate
from streaming.job import jobs
from streaming.progress import Progress
from streaming.runner import Runner

WARM_EVENTS = 50_000
RATE = 1_000
MINUTES = (2, 5, 10)
EVERY_SECONDS = 5
QUIET = Terminal(quiet=True)


class Sample(NamedTuple):
    """Lag of the jobs at a given number of seconds after the first event."""

    second: float
    records: int
    """Records of the log that have not landed."""

    commits: dict[str, int]
    """By job, commits that it has not read."""


def run(settings: Settings, spark: SparkSession) -> dict[str, Any]:
    """Catch up with a first day, then let a second one come at the rate, and look at the jobs while it does."""
    simulate(settings, Plan(seed=1, events=WARM_EVENTS), QUIET)
    chosen = list(jobs().values())
    Runner(settings, spark).run(chosen, until_caught_up=True)
    runner = Runner(settings, spark)
    latest: list[Progress] = []
    failed: list[BaseException] = []

    def on_progress(seen: list[Progress]) -> None:
        latest[:] = seen

    def stream() -> None:
        try:
            runner.run(chosen, until_caught_up=False, on_progress=on_progress)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=stream)
    thread.start()
    with memory(spark) as used:
        sending = _sending(settings)
        begin = time.monotonic()
        samples: list[Sample] = []
        while sending.poll() is None and thread.is_alive():
            commits = {each.job: each.waiting for each in latest if each.job != "landing"}
            samples.append(Sample(time.monotonic() - begin, _not_landed(settings), commits))
            time.sleep(EVERY_SECONDS)
    sending.terminate()
    runner.stop()
    thread.join()
    if failed:
        raise failed[0]
    figures = {"events_per_second": RATE, "table_trigger_seconds": settings.streaming.table_trigger_seconds}
    return figures | _figures(samples, used, {each.job: each.batch_seconds for each in latest})


def _sending(settings: Settings) -> "subprocess.Popen[bytes]":
    """Send a second day of events from a separate process, as real producers would."""
    day = f"{Plan().start + timedelta(days=1):%Y-%m-%d}"
    asked = {"--events": RATE * 60 * MINUTES[-1], "--rate": RATE, "--seed": 2, "--start": day}
    command = [sys.executable, "-m", "lakehouse", "simulate", *(str(part) for pair in asked.items() for part in pair)]
    environ = os.environ | {"LAKEHOUSE_HOME": str(settings.home)}
    return subprocess.Popen(command, cwd=ROOT, env=environ, stdout=subprocess.DEVNULL)


def _not_landed(settings: Settings) -> int:
    landed = ledger.landed_up_to(settings, "landing", 1)
    ends = end_offsets(settings, sorted({topic for topic, _ in landed}))
    return sum(max(end - landed.get(partition, 0), 0) for partition, end in ends.items())


def _figures(samples: list[Sample], used: list[int], seconds: dict[str, float]) -> dict[str, Any]:
    figures: dict[str, Any] = {"jobs": len(seconds)}
    for minute in MINUTES:
        # Every job is behind between two batches, so report the median of a minute's samples.
        last = [sample for sample in samples if (minute - 1) * 60 <= sample.second < minute * 60]
        figures[f"minute_{minute}_records_not_landed"] = round(median(sample.records for sample in last))
        figures[f"minute_{minute}_commits_behind"] = max(
            round(median(sample.commits.get(job, 0) for sample in last)) for job in seconds
        )
        near = used[(minute - 1) * 60 : minute * 60]
        figures[f"minute_{minute}_memory_gib"] = round(median(near) / 2**30, 2)
    return figures | {f"last_batch_seconds_{job}": round(took, 1) for job, took in seconds.items()}
