"""Generations: a switch serves other tables in one commit, and what was served before is not forgotten."""

from pathlib import Path

import deltalake
import pytest

from config.declarations import table_named
from config.settings import Settings
from lake import generations
from lake.generations import FIRST, TableGenerations
from lake.location import table_location
from lake.tables import arrow_schema
from streaming.job import job_named

SESSIONS, VIEWS = "gold.sessions", "gold.views_per_minute"


def test_before_the_first_switch_everything_is_in_its_first_generation(fresh_home: Settings) -> None:
    assert set(generations.live(fresh_home).values()) == {FIRST}
    assert generations.before(fresh_home) is None
    assert set(generations.served_since(fresh_home)) == {FIRST}


def test_a_switch_changes_the_tables_it_names_and_no_other(fresh_home: Settings) -> None:
    generations.switch(fresh_home, {SESSIONS: 2}, "promote", "because")
    live = generations.live(fresh_home)
    assert {name: number for name, number in live.items() if number != FIRST} == {SESSIONS: 2}
    assert set(live) == {table.name for table in generations.replayable_tables()}


def test_what_was_served_before_the_last_switch_is_known(fresh_home: Settings) -> None:
    generations.switch(fresh_home, {SESSIONS: 2}, "promote")
    generations.switch(fresh_home, {VIEWS: 3}, "promote")
    before = generations.before(fresh_home)
    assert before
    assert (before[SESSIONS], before[VIEWS]) == (2, FIRST)
    assert list(generations.served_since(fresh_home)) == [FIRST, 2, 3]


def test_a_switch_to_what_is_served_is_no_switch(fresh_home: Settings) -> None:
    generations.switch(fresh_home, {SESSIONS: 2}, "promote")
    generations.switch(fresh_home, {SESSIONS: 2}, "promote")
    before = generations.before(fresh_home)
    assert before and before[SESSIONS] == FIRST


def test_a_generation_that_is_being_dropped_is_not_listed(fresh_home: Settings) -> None:
    table = table_named(SESSIONS)
    assert not generations.has_replays(fresh_home)
    for number in (FIRST, 2, 3):
        rows = arrow_schema(table).empty_table()
        deltalake.write_deltalake(str(table_location(fresh_home, SESSIONS, number)), rows)
    (table_location(fresh_home, SESSIONS, 2) / generations.DROPPING).write("")
    Path(str(table_location(fresh_home, SESSIONS, 4))).mkdir()  # a folder without a commit, as a kill may leave it
    assert generations.built(fresh_home, table) == [FIRST, 3]
    assert generations.has_replays(fresh_home)


def test_a_build_names_the_tables_and_locks_of_one_replay() -> None:
    job = job_named("sessions")
    served, replayed = TableGenerations({SESSIONS: FIRST}), TableGenerations({SESSIONS: 2}, replay=2)
    assert (served.of_job(job), replayed.of_job(job)) == (FIRST, 2)
    assert (served.lock(job), replayed.lock(job)) == ("sessions", "sessions.g2")
    assert replayed.of_table("ops.ledger") == FIRST


@pytest.mark.parametrize("generation", [1, 2])
def test_a_job_is_served_if_what_it_writes_is(fresh_home: Settings, generation: int) -> None:
    job = job_named("sessions")
    assert generations.is_served(fresh_home, job, generation) == (generation == FIRST)
    generations.switch(fresh_home, {SESSIONS: 2}, "promote")
    assert generations.is_served(fresh_home, job, generation) == (generation == 2)
