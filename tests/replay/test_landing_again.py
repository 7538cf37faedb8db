"""A replay that would take the served silver rows refuses where landing again may give others; none starts Spark."""

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from config.declarations import table_named
from config.errors import LakehouseError
from config.settings import Settings
from expectations.quarantine import plan as redrives
from lake import generations, ledger
from lake.batch import Batch
from lake.location import Location, table_location
from lake.tables import append_once, arrow_schema
from replay import landing_again, manifest
from replay.plan import plan
from replay.reused_ledger import ranges
from streaming import landed_code, set_aside
from streaming.checkpoint import job_folder
from streaming.job import job_named, jobs

LANDING = job_named("landing")
QUARANTINE = "silver.quarantine"
NO_ROWS: Any = None


def entry(**values: Any) -> dict[str, Any]:
    """Make a ledger entry of a partition of clicks; by default of its first ten offsets."""
    row = dict.fromkeys(arrow_schema(table_named(ledger.TABLE)).names)
    row |= {"job": "landing", "generation": 1, "epoch": 1, "batch": 0, "topic": "clicks", "partition": 0}
    row |= {"from_offset": 0, "to_offset": 10, "input": 10, "bytes": 100}
    return row | dict.fromkeys(ledger.TERMS, 0) | values


def recorded(settings: Settings, **values: Any) -> None:
    """Write an entry into the ledger."""
    row = entry(**values)
    batch = Batch(NO_ROWS, row["job"], row["batch"], row["epoch"], row["generation"], settings)
    ledger.record_entry([row], batch)


def quarantined(settings: Settings, offset: int, rule: str) -> None:
    """Write a row into quarantine."""
    schema = pa.schema(
        [("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("rules", pa.list_(pa.string()))]
    )
    row = {"topic": "clicks", "partition": 0, "offset": offset, "rules": ["no_value", rule]}
    append_once(table_location(settings, QUARANTINE), pa.Table.from_pylist([row], schema), "test", offset)


@pytest.fixture
def folder(fresh_home: Settings) -> Location:
    """Return the folder of a landing that has landed ten records with the present code."""
    found = job_folder("landing", fresh_home, 1)
    landed_code.record(LANDING, fresh_home, found)
    recorded(fresh_home, silver=10)
    return found


def refused(settings: Settings, why: str) -> None:
    """Expect that a plan has one blocker, which names the command that lands again."""
    planned = plan(settings, list(jobs().values()), "silver", "earliest")
    ((problem, hint),) = planned.blockers
    assert why in problem
    assert "lakehouse replay run --source bronze" in hint
    assert plan(settings, list(jobs().values()), "bronze", "earliest").blockers == []


def test_the_same_code_and_nothing_special(fresh_home: Settings, folder: Location) -> None:
    quarantined(fresh_home, 3, "not_json")
    planned = plan(fresh_home, list(jobs().values()), "silver", "earliest")
    assert (planned.blockers, planned.ranges) == ([], {("clicks", 0): (0, 10)})
    assert landed_code.recorded(folder)


def test_nothing_has_landed(fresh_home: Settings) -> None:
    ((problem, hint),) = plan(fresh_home, list(jobs().values()), "silver", "earliest").blockers
    assert ("Nothing has been landed" in problem, hint) == (True, "lakehouse stream run landing")


def test_jobs_that_read_tables_need_nothing_of_it(fresh_home: Settings) -> None:
    assert plan(fresh_home, [job_named("sessions")], "silver", "earliest").blockers == []


def test_a_later_start(fresh_home: Settings, folder: Location) -> None:
    with pytest.raises(LakehouseError, match="from silver starts at its first record") as error:
        plan(fresh_home, list(jobs().values()), "silver", "2026-01-05T12:00:00Z")
    assert error.value.hint == "Omit --from."


def test_a_definition_or_a_contract_that_has_changed(fresh_home: Settings, folder: Location) -> None:
    (version,) = landed_code.recorded(folder)
    changed = {"contract of clicks": "other", "streaming.landing.classify._copies": "other"}
    landed_code.save(folder, [{**version, "code_version": "other", "parts": version["parts"] | changed}])
    refused(fresh_home, "Changed: contract of clicks, streaming.landing.classify._copies.")


def test_rows_of_two_versions_of_which_one_is_the_present(fresh_home: Settings, folder: Location) -> None:
    (version,) = landed_code.recorded(folder)
    changed = {"contract of orders": "other"}
    landed_code.save(folder, [version, {**version, "code_version": "other", "parts": version["parts"] | changed}])
    refused(fresh_home, "Changed: contract of orders.")


def test_another_horizon_of_duplicates(fresh_home: Settings, folder: Location) -> None:
    longer = fresh_home.streaming.model_copy(update={"dedup_horizon_minutes": 120})
    refused(fresh_home.model_copy(update={"streaming": longer}), "Changed: setting streaming.dedup_horizon_minutes.")


def test_code_of_an_older_release(fresh_home: Settings, folder: Location) -> None:
    landed_code.save(folder, [landed_code.UNKNOWN, *landed_code.recorded(folder)])
    refused(fresh_home, "It is not known which code landed the served silver tables")
    (folder / landed_code.FILE).remove()
    refused(fresh_home, "It is not known which code landed the served silver tables")


def test_a_redrive_that_was_made_or_has_begun(fresh_home: Settings, folder: Location) -> None:
    redrives.draw_up(fresh_home, 1, pa.table({"offset": [1]}))
    refused(fresh_home, "Records were redriven")
    redrives.done(fresh_home, 1)
    recorded(fresh_home, job="redrive", input=1, silver=1)
    refused(fresh_home, "Records were redriven")


def test_a_mark_that_was_lifted_although_its_record_is_in_quarantine(fresh_home: Settings, folder: Location) -> None:
    for offset in (3, 4):
        quarantined(fresh_home, offset, set_aside.RULE)
    set_aside.set_aside(fresh_home, [("clicks", 0, 3), ("clicks", 0, 4), ("clicks", 0, 99)], "overflow")
    assert landing_again.reasons(fresh_home) == []  # those are marked, and the third one has not landed
    set_aside.lift(fresh_home, [("clicks", 0, 3)])
    refused(fresh_home, "Other records are set aside now")


def test_served_tables_that_begin_later(fresh_home: Settings, folder: Location) -> None:
    made = manifest.new(fresh_home, list(jobs().values()), "kafka", '{"clicks": {"0": 5}}')
    manifest.save(fresh_home, made)
    landed_code.record(LANDING, fresh_home, job_folder("landing", fresh_home, made.generation))
    recorded(fresh_home, generation=made.generation, from_offset=5, input=5, silver=5)
    generations.switch(fresh_home, dict.fromkeys(made.tables, made.generation), "promote")
    refused(fresh_home, "did not start at the first record")


def test_entries_that_follow_one_another_are_one_also_across_a_transaction_marker() -> None:
    early, late = (datetime(2026, 1, day, tzinfo=UTC) for day in (5, 6))
    entries = [
        entry(from_offset=11, to_offset=20, input=9, batch=1, min_arrival_time=early, max_arrival_time=late, silver=9),
        entry(min_arrival_time=late, max_arrival_time=late, quarantined=10),
        entry(from_offset=20, to_offset=30, batch=2),
        entry(partition=1, from_offset=7, to_offset=8, input=1),
    ]
    found = ranges(entries, [])
    names = ("partition", "from_offset", "to_offset", "input", "bytes", "silver", "quarantined")
    assert [tuple(row[name] for name in names) for row in found] == [(0, 0, 30, 29, 300, 0, 0), (1, 7, 8, 1, 100, 0, 0)]
    assert [(row["min_arrival_time"], row["max_arrival_time"]) for row in found] == [(early, late), (None, None)]


def test_a_loss_separates_the_entries_of_its_partition_and_of_no_other() -> None:
    lost = [entry(job="landing.lost", from_offset=10, to_offset=15, lost=5)]
    entries = [
        entry(partition=number, from_offset=first, to_offset=first + 10) for number in (0, 1) for first in (0, 15)
    ]
    assert [(row["partition"], row["from_offset"], row["to_offset"]) for row in ranges(entries, lost)] == [
        *[(0, 0, 10), (0, 15, 25)],
        (1, 0, 25),
    ]


def test_a_damaged_record_names_its_way_out(fresh_home: Settings, folder: Location) -> None:
    (folder / landed_code.FILE).write(json.dumps([])[:1])
    with pytest.raises(LakehouseError) as error:
        plan(fresh_home, list(jobs().values()), "silver", "earliest")
    assert f"rm '{folder / landed_code.FILE}'" in error.value.hint
