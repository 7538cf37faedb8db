"""Dropped rows: recorded with the batch, they keep a job from starting until it is reset."""

from typing import Any

import deltalake
import pytest

from config.declarations import table_named
from config.errors import LakehouseError
from config.settings import Settings
from config.terminal import Terminal
from lake import batch_log
from lake.batch import Batch
from lake.generations import TableGenerations, serving, switch
from lake.location import table_location
from lake.tables import arrow_schema
from streaming.checkpoint import job_folder
from streaming.commands import show_dropped_rows
from streaming.dropped_rows import refuse_dropped_rows
from streaming.job import job_named

JOB = job_named("sessions")


def record(settings: Settings, dropped: int, batch: int = 3, generation: int = 1) -> None:
    """Record a micro-batch of the first epoch."""
    rows: Any = None
    batch_log.record_batch(Batch(rows, JOB.name, batch, 1, generation, settings, dropped=lambda: dropped), 5)


def test_a_job_refuses_to_start_after_a_drop_until_it_is_reset(fresh_home: Settings) -> None:
    (job_folder(JOB.name, fresh_home, 1) / "e1" / "offsets" / "4").write("v1")
    refuse_dropped_rows(JOB, fresh_home, serving(fresh_home))
    record(fresh_home, 2)
    record(fresh_home, 0, batch=4)  # a later batch without a drop forgets nothing
    with pytest.raises(LakehouseError, match="'sessions' stopped: Spark dropped 2 rows") as refused:
        refuse_dropped_rows(JOB, fresh_home, serving(fresh_home))
    assert "lakehouse stream reset sessions" in refused.value.hint
    switch(fresh_home, {JOB.writes[0]: 2}, "reset")  # as a reset does when it has rebuilt the table
    refuse_dropped_rows(JOB, fresh_home, serving(fresh_home))


def test_a_drop_before_the_checkpoint_was_begun_again_is_over(fresh_home: Settings) -> None:
    record(fresh_home, 2)
    (job_folder(JOB.name, fresh_home, 1) / "e2" / "offsets" / "0").write("v1")  # older releases reset in place
    refuse_dropped_rows(JOB, fresh_home, serving(fresh_home))


def test_a_drop_in_a_replay_stops_that_replay_and_not_the_live_job(fresh_home: Settings) -> None:
    record(fresh_home, 1, generation=2)
    refuse_dropped_rows(JOB, fresh_home, serving(fresh_home))
    with pytest.raises(LakehouseError, match="Spark dropped 1 row ") as refused:
        refuse_dropped_rows(JOB, fresh_home, TableGenerations({JOB.writes[0]: 2}, replay=2))
    assert "lakehouse replay drop 2" in refused.value.hint


def test_status_names_the_job_and_the_way_out(fresh_home: Settings, console: Terminal) -> None:
    record(fresh_home, 1_234)
    show_dropped_rows(fresh_home, serving(fresh_home), console)
    text = console.export_text()
    assert "✗ 'sessions' stopped: Spark dropped 1,234 rows" in text
    assert "lakehouse stream reset sessions" in text


def test_a_log_of_an_older_release_has_no_drops_and_takes_the_next_batch(fresh_home: Settings) -> None:
    empty = arrow_schema(table_named(batch_log.TABLE)).empty_table()
    row = {"job": JOB.name, "generation": 1, "epoch": 1, "batch": 2, "written": 5, "by_request": False}
    old = empty.drop_columns(["dropped"]).from_pylist([row])
    deltalake.write_deltalake(str(table_location(fresh_home, batch_log.TABLE) / "g1" / JOB.name), old)
    refuse_dropped_rows(JOB, fresh_home, serving(fresh_home))
    record(fresh_home, 7)
    assert batch_log.dropped(fresh_home, JOB.name, 1, epoch=1) == 7
