"""Checkpoints: a job goes on where it was; a lost checkpoint is refused, and a reset repeats nothing."""

import json
import shutil
from pathlib import Path
from typing import Any, cast

import deltalake
import pyarrow as pa
import pytest

from config.declarations import table_named
from config.errors import LakehouseError
from config.settings import Settings
from streaming import ledger
from streaming.checkpoint import open_checkpoint, reset
from streaming.job import Batch, Job

JOB = Job("landing", "lander", 1, ("clicks", "users"), ("silver.users",), lambda batch: None)


def land(settings: Settings, *, epoch: int, batch: int, end: int, whole: bool = True) -> None:
    """Leave what a batch leaves: Spark's checkpoint, rows in the table and, if it came to its end, the ledger."""
    path = settings.home / "checkpoints" / "g1" / "landing" / f"e{epoch}"
    (path / "offsets").mkdir(parents=True, exist_ok=True)
    deltalake.write_deltalake(
        str(table_named("silver.users").path(settings.warehouse)),
        pa.table({"user_id": ["u1"]}),
        mode="append",
        commit_properties=deltalake.CommitProperties(
            app_transactions=[deltalake.Transaction(f"landing/g1/e{epoch}", batch)]
        ),
    )
    if whole:
        place = {"job": "landing", "generation": 1, "epoch": epoch, "batch": batch, "topic": "clicks", "partition": 1}
        row = {**place, "from_offset": 0, "to_offset": end, "input": end}
        ledger.record([row], Batch(cast(Any, None), "landing", batch, epoch, 1, settings))


def checkpoints(settings: Settings) -> Path:
    return settings.home / "checkpoints" / "g1" / "landing"


def test_the_first_epoch_starts_at_the_beginning_of_the_log(fresh_home: Settings) -> None:
    found = open_checkpoint(JOB, fresh_home)
    assert (found.epoch, found.path, found.starting_offsets) == (1, checkpoints(fresh_home) / "e1", "earliest")


def test_a_job_goes_on_in_its_epoch(fresh_home: Settings) -> None:
    land(fresh_home, epoch=1, batch=0, end=10)
    assert open_checkpoint(JOB, fresh_home).epoch == 1


def test_each_generation_has_its_own_checkpoint(fresh_home: Settings) -> None:
    land(fresh_home, epoch=1, batch=0, end=10)
    found = open_checkpoint(JOB, fresh_home, 2)
    assert (found.epoch, found.starting_offsets) == (1, "earliest")
    assert found.path != open_checkpoint(JOB, fresh_home, 1).path


@pytest.mark.parametrize("whole", [True, False])
def test_a_lost_checkpoint_is_refused_with_the_command_that_mends_it(fresh_home: Settings, whole: bool) -> None:
    land(fresh_home, epoch=1, batch=0, end=10, whole=whole)
    shutil.rmtree(checkpoints(fresh_home))
    with pytest.raises(LakehouseError, match="checkpoint of 'landing' is gone") as error:
        open_checkpoint(JOB, fresh_home)
    assert "lakehouse stream reset landing" in error.value.mend


def test_an_emptied_checkpoint_is_refused_too(fresh_home: Settings) -> None:
    land(fresh_home, epoch=1, batch=0, end=10)
    shutil.rmtree(checkpoints(fresh_home) / "e1" / "offsets")
    with pytest.raises(LakehouseError, match="checkpoint of 'landing' is gone"):
        open_checkpoint(JOB, fresh_home)


def test_a_reset_starts_the_next_epoch_where_the_ledger_ends(fresh_home: Settings) -> None:
    land(fresh_home, epoch=1, batch=0, end=10)
    land(fresh_home, epoch=1, batch=1, end=25)
    land(fresh_home, epoch=1, batch=2, end=40, whole=False)
    shutil.rmtree(checkpoints(fresh_home))
    begun = reset(JOB, fresh_home)
    assert begun.epoch == 2
    assert json.loads(begun.starting_offsets) == {
        "clicks": {"0": -2, "1": 25, "2": -2, "3": -2},
        "users": {"0": -2, "1": -2, "2": -2, "3": -2},
    }
    assert open_checkpoint(JOB, fresh_home) == begun


def test_after_a_reset_the_epoch_goes_on_and_its_loss_is_noticed(fresh_home: Settings) -> None:
    land(fresh_home, epoch=1, batch=0, end=10)
    reset(JOB, fresh_home)
    land(fresh_home, epoch=2, batch=0, end=20)
    assert open_checkpoint(JOB, fresh_home).epoch == 2
    shutil.rmtree(checkpoints(fresh_home) / "e2")
    with pytest.raises(LakehouseError, match="checkpoint of 'landing' is gone"):
        open_checkpoint(JOB, fresh_home)
    assert reset(JOB, fresh_home).epoch == 3


@pytest.mark.parametrize("before", [0, 1])
def test_a_reset_never_begins_an_epoch_that_a_table_has_seen(fresh_home: Settings, before: int) -> None:
    # Delta would take the epoch's batch 0 for one it has, and drop its rows without a word.
    if before:
        land(fresh_home, epoch=1, batch=0, end=10)
        reset(JOB, fresh_home)
    land(fresh_home, epoch=before + 1, batch=0, end=20, whole=False)
    shutil.rmtree(checkpoints(fresh_home))
    begun = reset(JOB, fresh_home)
    table = deltalake.DeltaTable(str(table_named("silver.users").path(fresh_home.warehouse)))
    assert table.transaction_version(f"landing/g1/e{begun.epoch}") is None
