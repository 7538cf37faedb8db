"""Replay: rebuilt history is invisible until promoted, can be rolled back, and every difference has a reason."""

import re
from collections import Counter
from typing import Any

import pytest
from handmade import Lake
from typer.testing import CliRunner

from config.errors import LakehouseError
from config.settings import Settings
from lake.location import table_location
from lake.tables import read
from lake.views import views
from operations.demo.logic import job as longer_than_a_second
from replay import certificate, manifest
from replay import run as running
from replay.commands import app
from replay.manifest import Replay
from replay.promotion import promote, rollback
from streaming.job import jobs

VIEWS = "gold.views_per_minute"


def nothing(*_: Any) -> None:
    """Watch nothing."""


def served(lake: Lake, name: str) -> Counter[str]:
    """Read a table as readers do: by its view, which asks the pointer."""
    return Counter(map(repr, lake.spark.sql(views(lake.settings)[name]).collect()))


def generation(lake: Lake, name: str, number: int) -> Counter[str]:
    return Counter(map(repr, read(lake.spark, name, lake.settings, number).collect()))


def test_it_differs_from_what_is_served_by_late_events_alone(against: dict[str, Any]) -> None:
    found = against["what is served"]
    assert {reason for each in found.values() for reason in each["by_reason"]} == {"late"}
    assert sum(each["by_reason"].get("late", 0) for each in found.values()) > 10


def test_only_what_was_broken_off_is_resumed(lake: Lake, built: Replay) -> None:
    with pytest.raises(LakehouseError, match="not interrupted: it is built"):
        manifest.interrupted(lake.settings, built.generation)


def test_one_that_was_killed_before_it_made_a_table_is_listed(fresh_home: Settings) -> None:
    manifest.save(fresh_home, manifest.new(fresh_home, list(jobs().values()), "kafka", "earliest"))
    said = CliRunner().invoke(app, ["replay", "list"]).output
    assert re.search(r"2 +│ running", said), said


def test_nobody_sees_it_before_it_is_promoted_and_all_do_after(
    lake: Lake, built: Replay, against: dict[str, Any]
) -> None:
    names = [VIEWS, "gold.sessions", "silver.clicks"]
    before = {name: generation(lake, name, 1) for name in names}
    assert {name: served(lake, name) for name in names} == before
    with pytest.MonkeyPatch.context() as patch:
        # Its landing would go on with Kafka, which this lake has none of.
        patch.setattr("replay.promotion.reset", nothing)
        assert promote(lake.spark, lake.settings, built, None, nothing).passed
    assert {name: served(lake, name) for name in names} == {name: generation(lake, name, 2) for name in names}
    with pytest.raises(LakehouseError, match="is served"):
        manifest.drop(lake.settings, built, nothing)
    assert set(rollback(lake.settings).values()) == {1}
    assert {name: served(lake, name) for name in names} == before


def test_a_change_of_logic_is_told_from_everything_else(lake: Lake) -> None:
    chosen = [longer_than_a_second()]
    todo = manifest.new(lake.settings, chosen, "kafka", "earliest")
    assert todo.tables == [VIEWS]
    done = running.run(lake.spark, lake.settings, todo, jobs=chosen)
    found = certificate.verify(lake.spark, lake.settings, done, nothing, chosen).values["against"]
    reasons = found["what is served"][VIEWS]["by_reason"]
    assert reasons and set(reasons) == {"changed logic"}
    views_without: list[str] = []
    manifest.drop(lake.settings, done, lambda: views_without.append(views(lake.settings)[VIEWS]))
    gone = str(table_location(lake.settings, VIEWS, done.generation))
    assert views_without and gone not in views_without[0]  # readers' views let go of it while it is still there
    assert not table_location(lake.settings, VIEWS, done.generation).exists()
