"""Commands as a user runs them, each in its own process, and ways to kill a command in the middle of its work."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import IO

from payments import until

from config.settings import ROOT
from local.broker import Broker

LAKEHOUSE = [sys.executable, "-m", "lakehouse"]


def lakehouse(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, or to the failpoint in its environment, and wait until its Spark has ended."""
    return subprocess.run(
        [*LAKEHOUSE, *arguments], cwd=ROOT, env=os.environ | environ, capture_output=True, text=True, check=False
    )


def killed_at(failpoint: str, *arguments: str, **environ: str) -> None:
    """Run a command that is killed at a failpoint; fail if it never reaches it."""
    done = lakehouse(*arguments, **environ | {"LAKEHOUSE_FAILPOINT": failpoint})
    assert done.returncode == -signal.SIGKILL, f"{failpoint}: {done.stdout}{done.stderr}"


def killed_when(holds: Callable[[IO[str]], bool], *arguments: str) -> bool:
    """Run a command and kill it as soon as a condition on its output holds; return whether it was still running.

    Which step the kill interrupts is not known.
    """
    with subprocess.Popen(
        [*LAKEHOUSE, *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        said_so_far = process.stdout
        assert said_so_far
        try:
            until(lambda: holds(said_so_far) or process.poll() is not None, seconds=600)
        finally:
            process.kill()
        # Its Spark shares the output: when the output ends, both processes are gone and nothing writes any more.
        said, _ = process.communicate()
    assert process.returncode in (0, -signal.SIGKILL), said
    return process.returncode != 0


def kill_broker(broker: Broker) -> None:
    """Kill a broker, and wait until it is gone."""
    pid = broker.status().pid
    assert pid
    os.kill(pid, signal.SIGKILL)
    until(lambda: not broker.status().running)
