"""Checkpoints: a job goes on where it was; a lost checkpoint is refused, and a reset repeats nothing."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import deltalake
import pyarrow as pa
import pytest

from config.errors import LakehouseError
from config.settings import Settings
from lake import ledger, losses
from lake.batch import Batch
from lake.location import Location, table_location
from streaming.checkpoint import Checkpoint, describe_lost, open_checkpoint, reset
from streaming.job import Job

JOB = Job("landing", "lander", 1, ("bronze.events",), lambda batch: None, topics=("clicks", "users"))


BEGINS: dict[tuple[str, int], int] = {}
"""The first offset of each partition that Kafka still has, where it is not 0."""


@pytest.fixture
def deleted() -> Iterator[dict[tuple[str, int], int]]:
    """What Kafka deletes in a test."""
    yield BEGINS
    BEGINS.clear()


@pytest.fixture(autouse=True)
def log(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A log with the job's topics, two partitions each, and the id that each was given."""
    ids = {"clicks": "id of clicks", "users": "id of users"}
    ends = {(topic, partition): 100 for topic in ids for partition in range(2)}
    monkeypatch.setattr(
        "streaming.topic_identity.topic_ids", lambda settings, names: {name: ids[name] for name in names if name in ids}
    )
    monkeypatch.setattr("streaming.checkpoint.end_offsets", lambda settings, names: ends)
    monkeypatch.setattr("lake.losses.begin_offsets", lambda settings, names: BEGINS)
    return ids


def land(settings: Settings, *, epoch: int, batch: int, end: int, whole: bool = True) -> None:
    """Leave what a batch leaves: Spark's checkpoint, rows in the table and, if it came to its end, the ledger."""
    offsets = checkpoints(settings) / f"e{epoch}" / "offsets"
    offsets.mkdir(parents=True, exist_ok=True)
    (offsets / str(batch)).write_text("v1\n{}\n{}")
    (offsets.parent / "metadata").write_text('{"id": "of the query"}')
    (offsets.parent / "commits").mkdir(exist_ok=True)
    if batch:
        (offsets.parent / "commits" / str(batch - 1)).write_text("v1\n{}")
    of = Batch(cast(Any, None), "landing", batch, epoch, 1, settings)
    row = {"topic": "clicks", "partition": 1, "offset": end - 1}
    deltalake.write_deltalake(
        str(table_location(settings, "bronze.events")),
        pa.Table.from_pylist([row]),
        mode="append",
        partition_by=["topic"],
        commit_properties=deltalake.CommitProperties(app_transactions=[deltalake.Transaction(of.txn_app_id, batch)]),
    )
    if whole:
        place = {"job": "landing", "generation": 1, "epoch": epoch, "batch": batch, "topic": "clicks", "partition": 1}
        ledger.record_entry([{**place, "from_offset": 0, "to_offset": end, "input": end}], of)


def checkpoints(settings: Settings) -> Path:
    return settings.home / "checkpoints" / "g1" / "landing"


def test_the_first_epoch_starts_at_the_beginning_of_the_log(fresh_home: Settings) -> None:
    found = open_checkpoint(JOB, fresh_home)
    assert (found.epoch, str(found.location), found.starting_offsets) == (
        1,
        str(checkpoints(fresh_home) / "e1"),
        "earliest",
    )


def test_a_job_goes_on_in_its_epoch(fresh_home: Settings) -> None:
    land(fresh_home, epoch=1, batch=0, end=10)
    assert open_checkpoint(JOB, fresh_home).epoch == 1


def test_each_generation_has_its_own_checkpoint(fresh_home: Settings) -> None:
    land(fresh_home, epoch=1, batch=0, end=10)
    silver_only = replace(JOB, writes=("silver.users",))  # bronze has no generations
    found = open_checkpoint(silver_only, fresh_home, 2)
    assert (found.epoch, found.starting_offsets) == (1, "earliest")
    assert found.location != open_checkpoint(silver_only, fresh_home, 1).location


@pytest.mark.parametrize("whole", [True, False])
def test_a_lost_checkpoint_is_refused_with_the_command_that_resets_it(fresh_home: Settings, whole: bool) -> None:
    land(fresh_home, epoch=1, batch=0, end=10, whole=whole)
    shutil.rmtree(checkpoints(fresh_home))
    with pytest.raises(LakehouseError, match="checkpoint of 'landing' is gone") as error:
        open_checkpoint(JOB, fresh_home)
    assert "lakehouse stream reset landing" in error.value.hint


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
    assert json.loads(begun.starting_offsets) == {"clicks": {"0": -2, "1": 25}, "users": {"0": -2, "1": -2}}
    assert begun.landed == {"clicks": 39}  # the unfinished batch: what it wrote must not be written again
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


def test_after_a_reset_an_epoch_whose_unfinished_batch_is_in_a_table_is_not_started_again(fresh_home: Settings) -> None:
    land(fresh_home, epoch=1, batch=0, end=10)
    reset(JOB, fresh_home)
    land(fresh_home, epoch=2, batch=0, end=20, whole=False)  # killed before the ledger
    shutil.rmtree(checkpoints(fresh_home) / "e2")
    with pytest.raises(LakehouseError, match="checkpoint of 'landing' is gone"):
        open_checkpoint(JOB, fresh_home)


@pytest.mark.parametrize("before", [0, 1])
def test_a_reset_never_begins_an_epoch_that_a_table_has_seen(fresh_home: Settings, before: int) -> None:
    # Delta would take the epoch's batch 0 for one it has, and drop its rows without a word.
    if before:
        land(fresh_home, epoch=1, batch=0, end=10)
        reset(JOB, fresh_home)
    land(fresh_home, epoch=before + 1, batch=0, end=20, whole=False)
    shutil.rmtree(checkpoints(fresh_home))
    begun = reset(JOB, fresh_home)
    table = deltalake.DeltaTable(str(table_location(fresh_home, "bronze.events")))
    assert table.transaction_version(f"landing/g1/e{begun.epoch}") is None
    assert open_checkpoint(JOB, fresh_home) == begun


def test_another_log_of_the_same_name_is_refused(fresh_home: Settings, log: dict[str, str]) -> None:
    open_checkpoint(JOB, fresh_home)
    open_checkpoint(JOB, fresh_home)
    log["users"] = "another id"
    for refuses in (open_checkpoint, reset):
        with pytest.raises(LakehouseError, match="users was created again") as error:
            refuses(JOB, fresh_home)
        assert "import-home" in error.value.hint


def test_a_topic_declared_later_is_recorded_when_it_is_first_seen(fresh_home: Settings, log: dict[str, str]) -> None:
    open_checkpoint(replace(JOB, topics=("clicks",)), fresh_home)
    open_checkpoint(JOB, fresh_home)
    log["users"] = "another id"
    with pytest.raises(LakehouseError, match="users was created again"):
        open_checkpoint(JOB, fresh_home)


def test_a_topic_created_again_is_refused_in_another_generation_too(fresh_home: Settings, log: dict[str, str]) -> None:
    open_checkpoint(JOB, fresh_home)
    log["users"] = "another id"
    with pytest.raises(LakehouseError, match="users was created again"):
        open_checkpoint(replace(JOB, writes=("silver.users",)), fresh_home, 2)


@pytest.mark.parametrize(
    ("landed_before", "problem", "hint"),
    [
        (True, "Kafka has no topic users, which 'landing' has landed before", "Restore the old log"),
        (False, "Kafka has no topic users, which 'landing' reads", "lakehouse broker start"),
    ],
)
def test_a_missing_topic_is_refused_with_the_way_out(
    fresh_home: Settings, log: dict[str, str], landed_before: bool, problem: str, hint: str
) -> None:
    if landed_before:
        open_checkpoint(JOB, fresh_home)
    del log["users"]
    for refuses in (open_checkpoint, reset):
        with pytest.raises(LakehouseError, match=problem) as error:
            refuses(JOB, fresh_home)
        assert hint in error.value.hint


def test_a_loss_is_named_and_a_reset_goes_on_only_if_it_is_accepted(
    fresh_home: Settings, deleted: dict[tuple[str, int], int]
) -> None:
    land(fresh_home, epoch=1, batch=0, end=25)
    deleted["clicks", 1] = 60
    with pytest.raises(LakehouseError, match=r"no longer has clicks/1 offsets 25 to 59 \(35\)") as error:
        reset(JOB, fresh_home)
    assert error.value.hint.startswith('lakehouse stream reset landing --accept-loss "REASON"')
    assert losses.recorded(fresh_home, "landing") == []
    begun = reset(JOB, fresh_home, accept_loss="retention was too short")
    assert json.loads(begun.starting_offsets)["clicks"] == {"0": -2, "1": 60}
    (loss,) = losses.recorded(fresh_home, "landing")
    assert (loss["from_offset"], loss["to_offset"], loss["lost"]) == (25, 60, 35)
    assert loss["reason"] == "retention was too short"
    assert json.loads(reset(JOB, fresh_home).starting_offsets)["clicks"]["1"] == 60  # accepted once and for all


def test_offsets_that_the_first_batch_never_landed_are_a_loss_too(
    fresh_home: Settings, deleted: dict[tuple[str, int], int]
) -> None:
    sources = checkpoints(fresh_home) / "e1" / "sources" / "0"
    sources.mkdir(parents=True)
    (sources / "0").write_text('\0v1\n{"clicks":{"0":5},"users":{"0":0}}')
    deleted["clicks", 0] = 8
    assert describe_lost(JOB, fresh_home, 1) == "clicks/0 offsets 5 to 7 (3)"


def test_there_must_be_a_loss_to_accept_one(fresh_home: Settings) -> None:
    with pytest.raises(LakehouseError, match="no loss to accept"):
        reset(JOB, fresh_home, accept_loss="just in case")


def logged(folder: Path, name: str, *lines: object) -> None:
    """Write a file as Spark writes those of a checkpoint."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(["v1", *(json.dumps(line) for line in lines)]))


def test_the_watermark_of_a_batch_is_read_from_its_offsets(tmp_path: Path) -> None:
    logged(tmp_path, "offsets/0", {"batchWatermarkMs": 0}, {})
    logged(tmp_path, "offsets/1", {"batchWatermarkMs": 1_767_614_400_000}, {})
    found = Checkpoint(1, Location(str(tmp_path)))
    assert found.watermark(0) is None
    assert found.watermark(1) == datetime(2026, 1, 5, 12, tzinfo=UTC)


def test_the_records_of_a_batch_are_the_offsets_since_the_one_before(tmp_path: Path) -> None:
    (tmp_path / "sources" / "0").mkdir(parents=True)
    (tmp_path / "sources" / "0" / "0").write_text('\0v1\n{"clicks":{"0":5,"1":0}}')
    logged(tmp_path, "offsets/0", {}, {"clicks": {"0": 8, "1": 2}})
    logged(tmp_path, "offsets/1", {}, {"clicks": {"0": 8, "1": 3}, "users": {"0": 4}})
    found = Checkpoint(1, Location(str(tmp_path)))
    assert found.records(0) == (8 - 5) + (2 - 0)
    assert found.records(1) == (8 - 8) + (3 - 2) + 4


def test_how_far_it_has_read_its_tables_is_in_the_last_batch_begun(tmp_path: Path) -> None:
    assert Checkpoint(1, Location(str(tmp_path))).table_offsets() == []
    for batch in (2, 10):
        logged(tmp_path, f"offsets/{batch}", {}, {"reservoirVersion": batch})
    assert Checkpoint(1, Location(str(tmp_path))).table_offsets() == [{"reservoirVersion": 10}]


def test_the_commits_of_a_batch_are_those_since_the_one_before(tmp_path: Path) -> None:
    def end(table: str, version: int) -> dict[str, object]:
        return {"reservoirId": table, "reservoirVersion": version, "index": -1}

    logged(tmp_path, "offsets/0", {}, end("clicks", 3))
    logged(tmp_path, "offsets/1", {}, end("clicks", 5), end("users", 1))
    found = Checkpoint(1, Location(str(tmp_path)))
    assert found.commits(0) == {"clicks": (0, 2)}
    assert found.commits(1) == {"clicks": (3, 4), "users": (0, 0)}


def test_a_batch_is_unfinished_until_it_is_committed(tmp_path: Path) -> None:
    found = Checkpoint(1, Location(str(tmp_path)))
    assert found.unfinished() is None
    for batch in range(11):
        logged(tmp_path, f"offsets/{batch}", {})
        assert found.unfinished() == batch
        logged(tmp_path, f"commits/{batch}", {})
        assert found.unfinished() is None
