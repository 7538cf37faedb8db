"""Faults of the router, for real: processes die, join and leave; `clicks` is what an undisturbed router writes."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from processes import kill_broker
from raw_clicks import clicks_of, clicks_since, records_of, send

from config.kafka import Offsets, end_offsets
from config.settings import ROOT, Settings
from local.broker import Broker
from local.simulator.plan import Plan
from local.simulator.records import Record
from streaming.roles.router.router import run

ROUTE = [sys.executable, "-m", "lakehouse", "route"]
PLACES = ["route: records written", "route: offsets written", "route: committed"]
# Soon found dead, many transactions to die in, and a memory that begins in the middle of a partition.
HASTE = {
    "LAKEHOUSE_ROUTER__SESSION_SECONDS": "6",
    "LAKEHOUSE_ROUTER__TRANSACTION_SECONDS": "5",
    "LAKEHOUSE_ROUTER__RECORDS_PER_TRANSACTION": "150",
    "LAKEHOUSE_ROUTER__BOT_REACH": "300",
}


class Waiting:
    """A log with raw clicks that wait, and what must be in `clicks` when they are routed."""

    def __init__(self, settings: Settings, seed: int, events: int) -> None:
        # Another memory than the default, so that it has to be rebuilt from the middle of a partition.
        self.settings = settings.model_copy(
            update={
                "router": settings.router.model_copy(update={"bot_reach": int(HASTE["LAKEHOUSE_ROUTER__BOT_REACH"])})
            }
        )
        self.records: list[Record] = records_of(Plan(seed=seed, events=events, edge=True, bots=0.2), "clicks_raw")
        self.before: Offsets = end_offsets(settings, ["clicks"])
        send(settings, self.records)

    def is_routed_once(self) -> None:
        assert clicks_since(self.settings, self.before) == clicks_of(self.settings, self.records)


@pytest.fixture
def log(settings: Settings, broker: object) -> Settings:
    """A log whose raw clicks are routed up to now."""
    run(settings, until_caught_up=True)
    return settings


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    """The routers that a test starts; none outlives it."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


def start(processes: list[subprocess.Popen[str]], *arguments: str, **environ: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [*ROUTE, *arguments],
        cwd=ROOT,
        env=os.environ | HASTE | environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    processes.append(process)
    return process


def ends_well(process: subprocess.Popen[str]) -> str:
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said
    return said


@pytest.mark.faults
def test_killed_between_any_two_steps_nothing_is_lost_or_doubled(log: Settings, processes):
    waiting = Waiting(log, seed=21, events=2_500)
    for failpoint in PLACES:
        killed = start(processes, "--until-caught-up", LAKEHOUSE_FAILPOINT=failpoint)
        killed.wait(timeout=300)
        assert killed.returncode == -signal.SIGKILL, failpoint
    ends_well(start(processes, "--until-caught-up"))
    waiting.is_routed_once()


@pytest.mark.faults
def test_two_share_the_work_and_one_that_is_stopped_leaves_cleanly(log: Settings, processes):
    waiting = Waiting(log, seed=22, events=3_000)
    forever, other = start(processes), start(processes, "--until-caught-up")
    ends_well(other)
    forever.send_signal(signal.SIGTERM)
    assert "kept" in ends_well(forever)
    waiting.is_routed_once()


@pytest.mark.faults
@pytest.mark.slow
def test_when_one_of_two_is_killed_the_other_does_its_part(log: Settings, processes):
    waiting = Waiting(log, seed=23, events=20_000)
    killed, other = start(processes), start(processes, "--until-caught-up")
    assert killed.stdout and "records" in killed.stdout.readline()
    killed.kill()
    ends_well(other)
    waiting.is_routed_once()


@pytest.mark.faults
@pytest.mark.slow
def test_one_that_slept_until_it_was_given_up_writes_nothing_when_it_wakes(log: Settings, processes):
    waiting = Waiting(log, seed=24, events=20_000)
    asleep, other = start(processes), start(processes, "--until-caught-up")
    assert asleep.stdout and "records" in asleep.stdout.readline()
    asleep.send_signal(signal.SIGSTOP)
    ends_well(other)
    asleep.send_signal(signal.SIGCONT)
    asleep.send_signal(signal.SIGTERM)
    ends_well(asleep)
    waiting.is_routed_once()


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_killed_at_random_and_the_broker_too(fresh_home: Settings, processes, seed: int):
    broker = Broker(fresh_home)
    broker.start()
    try:
        waiting = Waiting(fresh_home, seed=30 + seed, events=20_000)
        chance = random.Random(seed)
        running = [start(processes) for _ in range(3)]
        for turn in range(6):
            time.sleep(chance.uniform(1, 6))
            victim = chance.choice(running)
            victim.kill()
            running[running.index(victim)] = start(processes)
            if turn == 3:
                kill_broker(broker)
                broker.start()
        ends_well(start(processes, "--until-caught-up"))
        for process in running:
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=300)
            assert process.returncode == 0 or "does not answer" in said  # it was started while the broker was down
        waiting.is_routed_once()
    finally:
        broker.stop()
