"""Lock files: held by one process at a time; the operating system releases them when their holder dies."""

import fcntl
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from config.errors import LakehouseError
from config.settings import Settings


@contextmanager
def exclusive(path: Path, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold a lock file, after waiting for the process that holds it; `on_wait` is called once before waiting."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        if not _try_lock(file):
            on_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def single_writer(settings: Settings, jobs: list[str]) -> Iterator[None]:
    """Hold the locks of some jobs; refuse, and name the holder, if another process writes one of them."""
    with ExitStack() as held:
        for job in jobs:
            held.enter_context(_job_lock(settings, job))
        yield


def holder(settings: Settings, job: str) -> dict[str, Any] | None:
    """Return the process that writes a job now: its id, since when, and its command; none if there is none."""
    path = _path(settings, job)
    if not path.exists():
        return None
    with path.open("r+") as file:
        return None if _try_lock(file) else _read(file)


@contextmanager
def _job_lock(settings: Settings, job: str) -> Iterator[None]:
    path = _path(settings, job)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        if not _try_lock(file):
            other = _read(file)
            raise LakehouseError(
                f"'{job}' is already being run by process {other.get('pid')}, since {other.get('since')}: "
                f"{other.get('command')}",
                f"Stop that one first (Ctrl-C there, or: kill {other.get('pid')}).",
            )
        file.truncate(0)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        file.write(json.dumps({"pid": os.getpid(), "since": now, "command": " ".join(sys.argv)}))
        file.flush()
        yield


def _try_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(file: IO[str]) -> dict[str, Any]:
    file.seek(0)
    return dict(json.loads(file.read() or "{}"))


def _path(settings: Settings, job: str) -> Path:
    return settings.home / "locks" / f"{job}.lock"
