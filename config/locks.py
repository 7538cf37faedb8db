"""Lock files: held by one process at a time; the operating system releases them when their holder dies."""

import fcntl
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from config.errors import LakehouseError


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
def claim(path: Path, job: str) -> Iterator[None]:
    """Hold the lock file of a job; raise an error that names the holder if another process has it."""
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


def claimed_by(path: Path) -> dict[str, Any] | None:
    """Return the process that holds a claim: its id, since when, and its command; None if there is none."""
    if not path.exists():
        return None
    with path.open("r+") as file:
        return None if _try_lock(file) else _read(file)


def _try_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(file: IO[str]) -> dict[str, Any]:
    file.seek(0)
    try:
        return dict(json.loads(file.read()))
    except ValueError:
        return {}  # its holder is writing it, or a power cut has emptied it: the lock itself is not in the content
