"""Costs: CPU time and memory of processes, on every operating system."""

import subprocess
import sys

import psutil

from lake.costs import _cpu_seconds, _peak_memory


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
