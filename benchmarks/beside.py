"""Benchmark of a replay beside live jobs: how fresh gold is at 1,000 events/s, before the replay and while it runs."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.freshness import GOLD, LIVE_RATE, QUIET, Chain, Days, following, percentiles, waits
from config.settings import ROOT, Settings
from lake.location import table_location
from local.simulator.run import simulate
from replay import manifest
from streaming.checkpoint import last_checkpoint
from streaming.job import job_named
from streaming.runner import Runner

WARM_EVENTS = 100_000


def run(settings: Settings, spark: SparkSession) -> dict[str, Any]:
    """Measure the freshness of the same jobs under the same load, alone and beside a replay of all there is."""
    days = Days()
    simulate(settings, days.next(WARM_EVENTS), QUIET)
    names = ("landing", GOLD)
    Runner(settings, spark).run([job_named(name) for name in names], until_caught_up=True)
    silver = Path(str(table_location(settings, "silver.payments")))
    gold = Path(str(last_checkpoint(job_named(GOLD), settings).location))

    @contextmanager
    def beside_a_replay() -> Iterator[None]:
        with following(settings, spark, *names), replaying(settings):
            yield

    figures: dict[str, Any] = {"events_per_second": LIVE_RATE}
    chains = {
        "alone": Chain("payments", lambda: following(settings, spark, *names), silver, gold),
        "beside_a_replay": Chain("payments", beside_a_replay, silver, gold),
    }
    for name, chain in chains.items():
        figures |= percentiles(name, waits(settings, days, chain))
    (replay,) = manifest.replays(settings)
    figures["replay_records"] = replay.records
    figures["replay_seconds"] = round(replay.seconds, 1)
    figures["beside_to_alone"] = round(figures["beside_a_replay_p50_seconds"] / figures["alone_p50_seconds"], 2)
    return figures


@contextmanager
def replaying(settings: Settings) -> Iterator[None]:
    """Replay in a process of its own, as a user does, while something else is done; then let it come to its end."""
    command = [sys.executable, "-m", "lakehouse", "replay", "run"]
    environ = os.environ | {"LAKEHOUSE_HOME": str(settings.home)}
    with subprocess.Popen(command, cwd=ROOT, env=environ, stdout=subprocess.DEVNULL) as process:
        yield
    assert process.returncode == 0
