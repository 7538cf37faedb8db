"""Costs: CPU time and memory of processes, on every operating system; each is recorded, whatever the clock does."""

import subprocess
import sys
import time

import psutil
import pytest

from config.settings import Settings
from lake.costs import Cost, _cpu_seconds, _peak_memory, record_cost, recorded_costs


def test_cpu_time_grows_with_work_and_memory_is_known() -> None:
    me = psutil.Process()
    before = _cpu_seconds([me])
    while _cpu_seconds([me]) == before:
        sum(range(100_000))
    assert _peak_memory(me) >= 10 * 2**20


def test_a_process_that_has_ended_adds_nothing() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        process = psutil.Process(child.pid)
    assert child.returncode is not None
    assert (_cpu_seconds([process]), _peak_memory(process)) == (0, 0)


def test_a_cost_is_recorded_after_the_clock_has_stepped_back(
    fresh_home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_cost(fresh_home, "replay", "first", 1, Cost())
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    record_cost(fresh_home, "replay", "second", 1, Cost())
    assert [row["what"] for row in recorded_costs(fresh_home)] == ["first", "second"]
