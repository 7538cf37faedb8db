"""One writer per job: whoever writes a job's tables holds its lock."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from config.home import make_home
from config.settings import Settings
from lake.location import Location, storage


@contextmanager
def single_writer(settings: Settings, jobs: list[str]) -> Iterator[None]:
    """Hold the locks of some jobs; raise an error that names the holder if another process writes one of them."""
    make_home(settings)
    with ExitStack() as held:
        for job in jobs:
            held.enter_context(_lock(settings, job).claim(job))
        yield


def ensure_free(settings: Settings, jobs: list[str]) -> None:
    """Raise the error of `single_writer` at once if a job is being run: for commands that first start Spark."""
    with single_writer(settings, jobs):
        pass


def holder(settings: Settings, job: str) -> dict[str, Any] | None:
    """Return the process that writes a job now: its id, since when, and its command; None if there is none."""
    return _lock(settings, job).claimed_by()


def _lock(settings: Settings, job: str) -> Location:
    return storage(settings) / "locks" / f"{job}.lock"
