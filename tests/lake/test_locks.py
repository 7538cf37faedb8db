"""The lock: one writer for each job across processes, and it is released when its holder dies."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from config.errors import LakehouseError
from config.locks import exclusive
from config.settings import Settings
from lake.locks import holder, single_writer

HOLD = """
import sys
from config.settings import load_settings
from lake.locks import single_writer
with single_writer(load_settings(), ["landing"]):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_process(home: Settings) -> Iterator[subprocess.Popen[str]]:
    """Hold the lock of 'landing' in another process until its input ends, or it is killed."""
    environ = {**os.environ, "LAKEHOUSE_HOME": str(home.home)}
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        yield other


def test_a_second_writer_is_refused_with_the_process_of_the_first_until_that_is_killed(fresh_home: Settings) -> None:
    with another_process(fresh_home) as other:
        first = f"'landing' .* by process {other.pid},"
        with pytest.raises(LakehouseError, match=first) as error, single_writer(fresh_home, ["landing"]):
            pytest.fail("two writers of one job")
        assert f"kill {other.pid}" in error.value.hint
        found = holder(fresh_home, "landing")
        assert found is not None
        assert found["pid"] == other.pid
        other.kill()
        other.wait()
        assert holder(fresh_home, "landing") is None
        with single_writer(fresh_home, ["landing"]):
            found = holder(fresh_home, "landing")
            assert found is not None
            assert found["pid"] == os.getpid()


def test_a_refused_run_frees_the_jobs_it_had_taken(fresh_home: Settings) -> None:
    with single_writer(fresh_home, ["landing"]):
        with pytest.raises(LakehouseError), single_writer(fresh_home, ["other", "landing"]):
            pytest.fail("two writers of one job")
        assert holder(fresh_home, "other") is None
        assert holder(fresh_home, "landing") is not None


def test_jobs_and_homes_do_not_disturb_each_other(settings: Settings, fresh_home: Settings) -> None:
    with (
        single_writer(fresh_home, ["landing"]),
        single_writer(fresh_home, ["other"]),
        single_writer(settings, ["landing"]),
    ):
        assert holder(fresh_home, "landing") is not None
    assert holder(fresh_home, "landing") is None


def test_nobody_writes_a_job_that_never_ran(fresh_home: Settings) -> None:
    assert holder(fresh_home, "landing") is None
    assert not fresh_home.home.exists()


def test_an_exclusive_lock_is_waited_for_and_the_wait_is_announced(tmp_path: Path) -> None:
    waits, order = threading.Event(), []

    def second() -> None:
        with exclusive(tmp_path / "new folder" / "lock", waits.set):
            order.append("second")

    other = threading.Thread(target=second)
    with exclusive(tmp_path / "new folder" / "lock", lambda: pytest.fail("nobody else holds it")):
        other.start()
        assert waits.wait(30)
        order.append("first")
    other.join()
    assert order == ["first", "second"]
