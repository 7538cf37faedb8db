"""One writer for each job: a lock that the operating system frees when its holder dies."""

import fcntl
import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from config.errors import LakehouseError
from config.settings import Settings


@contextmanager
def single_writer(settings: Settings, jobs: list[str]) -> Iterator[None]:
    """Hold the locks of the jobs, or refuse and name who holds one."""
    with ExitStack() as held:
        for job in jobs:
            held.enter_context(_lock(settings, job))
        yield


def holder(settings: Settings, job: str) -> dict[str, Any] | None:
    """Say who is writing a job now, if anyone is."""
    path = _path(settings, job)
    if not path.exists():
        return None
    with path.open("r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return dict(json.loads(file.read() or "{}"))
    return None


@contextmanager
def _lock(settings: Settings, job: str) -> Iterator[None]:
    path = _path(settings, job)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            other = json.loads(file.read() or "{}")
            raise LakehouseError(
                f"'{job}' is already being run by process {other.get('pid')}, since {other.get('since')}: "
                f"{other.get('command')}",
                f"Stop that one first (Ctrl-C there, or: kill {other.get('pid')}).",
            ) from None
        file.truncate(0)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        file.write(json.dumps({"pid": os.getpid(), "since": now, "command": " ".join(sys.argv)}))
        file.flush()
        yield


def _path(settings: Settings, job: str) -> Path:
    return settings.home / "locks" / f"{job}.lock"
