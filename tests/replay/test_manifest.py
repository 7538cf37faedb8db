"""Manifests, without Spark: what a replay builds, and in which state it can be continued or dropped."""

from dataclasses import replace

import deltalake
import pyarrow as pa
import pytest

from config.declarations import table_named
from config.errors import LakehouseError
from config.settings import Settings
from lake import generations
from lake.location import table_location
from replay import manifest
from replay.manifest import Replay
from streaming.job import job_named, jobs

SESSIONS = "gold.sessions"


@pytest.fixture
def replay(fresh_home: Settings) -> Replay:
    """A replay of one job that was killed: its manifest is saved, and its table is there."""
    found = manifest.new(fresh_home, [job_named("sessions")], "kafka", "earliest")
    deltalake.write_deltalake(str(table_location(fresh_home, SESSIONS, 2)), pa.table({"events": [1]}))
    manifest.save(fresh_home, found)
    return found


def test_it_builds_what_its_jobs_write_and_reads_the_rest_as_it_is_served(fresh_home: Settings, replay: Replay) -> None:
    assert (replay.generation, replay.tables, replay.jobs_to_run()) == (2, [SESSIONS], [job_named("sessions")])
    assert replay.target.of_table(SESSIONS) == 2
    assert replay.target.of_table("silver.clicks_enriched") == 1
    assert (replay.versions, list(replay.code)) == ({"sessions": job_named("sessions").version}, ["sessions"])


def test_it_is_read_as_it_was_saved_and_the_next_one_has_another_number(fresh_home: Settings, replay: Replay) -> None:
    second = manifest.new(fresh_home, list(jobs().values()), "bronze", "earliest")
    assert second.generation == 3
    manifest.save(fresh_home, second)
    assert manifest.replays(fresh_home) == [replay, second]
    assert manifest.replay_of(fresh_home, 2) == replay


def test_one_that_does_not_exist_is_refused_with_those_that_do(fresh_home: Settings, replay: Replay) -> None:
    with pytest.raises(LakehouseError, match=r"no replay of generation 7; there are: 2\."):
        manifest.replay_of(fresh_home, 7)
    manifest.save(fresh_home, replace(replay, state="dropped"))
    with pytest.raises(LakehouseError, match=r"no replay of generation 2; there are: none yet\."):
        manifest.replay_of(fresh_home, 2)


def test_only_one_that_was_interrupted_is_resumed(fresh_home: Settings, replay: Replay) -> None:
    assert manifest.interrupted(fresh_home, 2) == replay
    for state, command in (("built", "verify"), ("verified", "promote")):
        manifest.save(fresh_home, replace(replay, state=state))  # type: ignore[arg-type]
        with pytest.raises(LakehouseError, match=f"it is {state}") as error:
            manifest.interrupted(fresh_home, 2)
        assert f"lakehouse replay {command} 2" in error.value.hint


def test_the_views_forget_its_tables_before_these_are_removed(fresh_home: Settings, replay: Replay) -> None:
    table = table_location(fresh_home, SESSIONS, 2)
    seen = []

    def refresh() -> None:
        seen.append((table.is_table(), generations.built(fresh_home, table_named(SESSIONS))))

    assert manifest.drop(fresh_home, replay, refresh) > 0
    assert seen == [(True, [])]
    assert not table.exists()
    assert [each.state for each in manifest.replays(fresh_home)] == ["dropped"]


def test_one_that_is_served_is_not_dropped(fresh_home: Settings, replay: Replay) -> None:
    generations.switch(fresh_home, {SESSIONS: 2}, "promote")
    with pytest.raises(LakehouseError, match="Generation 2 is served"):
        manifest.drop(fresh_home, replay, lambda: pytest.fail("the views were changed"))
    assert table_location(fresh_home, SESSIONS, 2).is_table()
