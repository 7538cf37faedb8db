"""Replay: rebuilt history is invisible until promoted, can be rolled back, and every difference has a reason."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from event_log import event
from gold import catch_up
from handmade import Lake, Log
from typer.testing import CliRunner

from config.errors import LakehouseError
from config.settings import Settings
from expectations.parity.comparison import compared
from expectations.parity.sides import generation_side
from lake.generations import serving
from lake.location import table_location
from lake.tables import read
from lake.views import views
from operations.demo.logic import job as longer_than_a_second
from replay import certificate, manifest
from replay import run as running
from replay.commands import app
from replay.manifest import Replay
from replay.promotion import promote, rollback
from streaming.job import job_named, jobs
from streaming.windows.closing import close

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
    _write_twice(lake, done)
    with pytest.raises(LakehouseError, match=f"another state: {VIEWS} has changed"):
        promote(lake.spark, lake.settings, done, None, nothing, chosen)
    again = certificate.verify(lake.spark, lake.settings, done, nothing, chosen)
    assert [(each["table"], each["rule"], each["rows"]) for each in again.failures] == [(VIEWS, "key_unique", 1)]
    with pytest.raises(LakehouseError, match=f"broke rules when it was verified: {VIEWS}: key_unique"):
        promote(lake.spark, lake.settings, done, "whatever", nothing, chosen)
    views_without: list[str] = []
    manifest.drop(lake.settings, done, lambda: views_without.append(views(lake.settings)[VIEWS]))
    gone = str(table_location(lake.settings, VIEWS, done.generation))
    assert views_without and gone not in views_without[0]  # readers' views let go of it while it is still there
    assert not table_location(lake.settings, VIEWS, done.generation).exists()


def _write_twice(lake: Lake, replay: Replay) -> None:
    """Append a row of a replay's table once more: no comparison looks at it, but the gate does."""
    rows = read(lake.spark, VIEWS, lake.settings, replay.generation).limit(1)
    rows.write.format("delta").mode("append").save(str(table_location(lake.settings, VIEWS, replay.generation)))


def _place_unpaid_order(lake: Lake) -> None:
    """Land an order as late as the last one there, so that its hour for the payment has not passed."""
    last = max(row.event_time for row in lake.rows("silver.orders"))
    log = Log()
    placed = event("order_placed", "placed", last.isoformat(timespec="milliseconds")[:23], order_id="unpaid")
    log.send(placed, "orders", key="unpaid", partition=9)
    lake.land(log.records)


def test_rows_that_a_request_has_closed_are_in_a_replay_or_missing_without_a_reason(lake: Lake, tmp_path: Path) -> None:
    mine = lake.copied(tmp_path)
    chosen = [job_named("sessions"), job_named("order_payments")]
    _place_unpaid_order(mine)
    catch_up(mine, [job.name for job in chosen])

    def replayed() -> Replay:
        todo = manifest.new(mine.settings, chosen, "kafka", "earliest")
        return running.run(mine.spark, mine.settings, todo)

    def differing(done: Replay) -> dict[str, tuple[int, Any]]:
        sides = [generation_side(mine.spark, mine.settings, each, "") for each in (done.target, serving(mine.settings))]
        found = compared(mine.settings, *sides, jobs=chosen)
        return {name: (each.parity.equal, each.by_reason) for name, each in found.items()}

    before = replayed()
    assert {name: reasons for name, (_, reasons) in differing(before).items()} == {job.writes[0]: {} for job in chosen}
    for job in chosen:
        close(job, mine.settings, mine.spark)
    missing = differing(before)
    assert all(set(reasons) == {"unexplained"} for _, reasons in missing.values()), missing
    # Every row that is served as final, the closed ones too.
    assert differing(replayed()) == {name: (n + reasons["unexplained"], {}) for name, (n, reasons) in missing.items()}
