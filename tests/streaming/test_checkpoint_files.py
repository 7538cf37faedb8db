"""Spark's files in a checkpoint: a damaged or missing one is named, with the command that replaces the checkpoint."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from config.errors import LakehouseError
from config.files import DamagedFileError
from config.settings import Settings
from lake.location import Location
from streaming.checkpoint import open_checkpoint
from streaming.checkpoint_files import ensure_readable
from streaming.job import jobs

JOB = "views_per_minute"
FILES = {
    "metadata": '{"id":"5e2bb12f-7c1a-4e7f-8a43-8a0f2f3c1a55"}',
    **{f"offsets/{n}": f'v1\n{{"batchWatermarkMs":{n}}}\n{{"reservoirVersion":{n}}}\n-' for n in (7, 8, 9)},
    **{f"commits/{n}": f'v1\n{{"nextBatchWatermarkMs":{n}}}' for n in (7, 8)},
}


@pytest.fixture
def checkpoint(fresh_home: Settings) -> Path:
    """The checkpoint of a query that was killed in its tenth batch; the first batches are purged."""
    folder = fresh_home.home / "checkpoints" / "g1" / JOB / "e1"
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


def test_the_checkpoint_of_a_killed_query_is_whole(checkpoint: Path) -> None:
    ensure_readable(Location(str(checkpoint)))
    (checkpoint / "commits" / "9").write_text(FILES["commits/8"])  # it was stopped, not killed
    ensure_readable(Location(str(checkpoint)))


@pytest.mark.parametrize("name", ["metadata", "offsets/8", "offsets/9", "commits/8"])
def test_a_file_that_is_cut_off_anywhere_is_named(checkpoint: Path, name: str) -> None:
    for length in range(len(FILES[name])):
        (checkpoint / name).write_text(FILES[name][:length])
        with pytest.raises(DamagedFileError, match=re.escape(str(checkpoint / name))) as error:
            ensure_readable(Location(str(checkpoint)))
        assert error.value.hint == f"lakehouse stream reset {JOB}"


@pytest.mark.parametrize("name", ["offsets/8", "offsets/9", "commits/7", "commits/8"])
def test_a_missing_file_is_named(checkpoint: Path, name: str) -> None:
    (checkpoint / "commits" / "9").write_text(FILES["commits/8"])
    (checkpoint / name).unlink()
    if name == "commits/8":  # without its own commit the last batch is repeated, but not the one before
        (checkpoint / "commits" / "9").unlink()
    with pytest.raises(LakehouseError, match=re.escape(f"{checkpoint / name} is missing")) as error:
        ensure_readable(Location(str(checkpoint)))
    assert error.value.hint == f"lakehouse stream reset {JOB}"


def test_the_command_that_is_named_lets_the_job_start(checkpoint: Path, fresh_home: Settings) -> None:
    job = replace(jobs()[JOB], writes=())
    (checkpoint / "offsets" / "9").write_text("")
    with pytest.raises(DamagedFileError):
        open_checkpoint(job, fresh_home)
    rebuilt = open_checkpoint(job, fresh_home, 2)  # a reset builds another generation, and never opens this one
    assert rebuilt.location != Location(str(checkpoint))
