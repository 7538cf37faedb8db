"""Redrive, on a real log: what a mended rule lets in comes back once, whatever happens in between."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from strict_rules import too_strict

from config.declarations import landed_tables, table_named
from config.settings import ROOT, Settings
from config.terminal import Terminal
from expectations.ledger_check import check_ledger, check_truth
from expectations.quarantine import redrive as redriving
from expectations.quarantine.plan import unfinished
from expectations.quarantine.redrive import RedriveResult, redrive
from lake import ledger
from lake.location import table_location
from lake.tables import ORIGIN, arrow_schema, read_arrow
from local.broker import Broker
from local.simulator.plan import Plan
from local.simulator.run import simulate
from local.simulator.truth import read_truth
from streaming.job import job_named
from streaming.runner import Runner

SIDES = ("silver.quarantine", "silver.late", "silver.duplicates")
TABLES = (*(table.name for table in landed_tables()), *SIDES)
Contents = dict[str, list[tuple[object, ...]]]
PLACES = [
    "silver.quarantine",
    "ops.ledger",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("silver.users", "silver.clicks", "silver.late")),
]


@pytest.fixture(scope="module")
def refused(spark: SparkSession, settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """A log landed under a rule that refused a fourth of all that is good; the rules of today are without it."""
    mine = settings.at(tmp_path_factory.mktemp("refused"))
    mine = mine.model_copy(update={"streaming": mine.streaming.model_copy(update={"records_per_batch": 1200})})
    broker = Broker(mine)
    broker.start()
    try:
        simulate(mine, Plan(seed=3, events=1500, malformed=0.02, late=0.03, duplicates=0.05), Terminal(quiet=True))
        with too_strict():
            Runner(mine, spark).run([job_named("landing")], until_caught_up=True)
        shutil.copytree(mine.warehouse, mine.home / "as landed")
        yield mine
    finally:
        broker.stop()


@pytest.fixture
def landed(refused: Settings) -> Settings:
    """The tables as they were before any redrive."""
    shutil.rmtree(refused.warehouse)
    shutil.copytree(refused.home / "as landed", refused.warehouse)
    shutil.rmtree(refused.home / "redrive", ignore_errors=True)
    return refused


def contents(settings: Settings) -> Contents:
    """Give what every table holds, by origin, in a form that can be compared."""
    found = {}
    for name in TABLES:
        columns = [column for column in (*ORIGIN, "late_by_ms") if column in table_named(name).stored]
        rows = read_arrow(table_location(settings, name), columns=columns).to_pylist()
        found[name] = sorted(tuple(row.values()) for row in rows)
    return found


def versions(settings: Settings) -> dict[str, int]:
    return {name: deltalake.DeltaTable(str(table_location(settings, name))).version() for name in TABLES}


@pytest.fixture(scope="module")
def expected(spark: SparkSession, refused: Settings) -> tuple[RedriveResult, Contents]:
    """What a redrive that nobody disturbs comes to."""
    outcome = redrive(spark, refused, 1)
    return outcome, contents(refused)


def test_what_was_refused_wrongly_comes_back_and_every_record_is_in_one_place(
    spark: SparkSession, refused: Settings, expected: tuple[RedriveResult, Contents]
) -> None:
    outcome, _ = expected
    truth = read_truth(refused)
    assert outcome.refused == sum(len(each) for each in truth.malformed.values())
    # Clicks of the end of the day are in time, those of the morning are not; of users all are.
    assert set(outcome.moved) == {"silver", "late", "duplicates"}
    assert sum(outcome.moved.values()) > 200
    check = check_ledger(spark, refused)
    assert check.faults == []
    assert check_truth(spark, refused, truth) == []
    assert check.counts["users"]["late"] == 0
    assert ledger.total(ledger.entries(refused, ["redrive"]), "input") == sum(outcome.moved.values())


def test_a_second_redrive_changes_nothing(
    spark: SparkSession, refused: Settings, expected: tuple[RedriveResult, Contents]
) -> None:
    before, entries = versions(refused), ledger.entries(refused)
    assert redrive(spark, refused, 1) == RedriveResult({}, expected[0].refused)
    assert (versions(refused), ledger.entries(refused)) == (before, entries)


def test_a_ledger_that_says_otherwise_of_a_redrive_is_found(
    spark: SparkSession,
    refused: Settings,
    expected: tuple[RedriveResult, Contents],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entries = ledger.entries(refused)
    moved = next(row for row in entries if row["job"] == "redrive")
    moved["late"] += 1

    def recorded(_: Settings, jobs: list[str], __: int) -> pa.Table:
        rows = [row for row in entries if row["job"] in jobs]
        return pa.Table.from_pylist(rows, arrow_schema(table_named(ledger.TABLE)))

    monkeypatch.setattr(ledger, "recorded", recorded)
    faults = check_ledger(spark, refused).faults
    assert any("records left quarantine" in fault for fault in faults)
    assert any("the ledger has late = " in fault for fault in faults)


class Killed(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize("failpoint", PLACES)
def test_broken_off_after_any_commit_it_ends_the_same(
    spark: SparkSession,
    landed: Settings,
    expected: tuple[RedriveResult, Contents],
    failpoint: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def die(name: str) -> None:
        if name == f"redrive: after {failpoint}":
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(redriving, "failpoint", die)
        with pytest.raises(Killed):
            redrive(spark, landed, 1)
    assert unfinished(landed, 1)
    outcome = redrive(spark, landed, 1)
    assert not unfinished(landed, 1)
    assert outcome == expected[0]
    assert contents(landed) == expected[1]
    assert ledger.total(ledger.entries(landed, ["redrive"]), "input") == sum(outcome.moved.values())


def test_more_than_fits_at_a_time_goes_in_parts_to_the_same_places(
    spark: SparkSession, landed: Settings, expected: tuple[RedriveResult, Contents]
) -> None:
    few = landed.model_copy(update={"streaming": landed.streaming.model_copy(update={"records_on_driver": 150})})
    assert redrive(spark, few, 1) == expected[0]
    assert contents(landed) == expected[1]
    entries = ledger.entries(landed, ["redrive"])
    assert len({tuple(row[key] for key in table_named("ops.ledger").key) for row in entries}) == len(entries)


@pytest.mark.faults
@pytest.mark.slow
def test_killed_for_real_the_command_finishes_it_and_the_ledger_balances(
    spark: SparkSession, landed: Settings, expected: tuple[RedriveResult, Contents]
) -> None:
    command = [sys.executable, "-m", "lakehouse", "quarantine", "redrive"]
    environ = os.environ | {"LAKEHOUSE_HOME": str(landed.home)}
    killed = subprocess.run(
        command, cwd=ROOT, env=environ | {"LAKEHOUSE_FAILPOINT": "redrive: after silver.late"}, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert any("a redrive" in fault.lower() for fault in check_ledger(spark, landed).faults)
    done = subprocess.run(command, cwd=ROOT, env=environ, text=True, capture_output=True, check=True)
    assert f"{expected[0].moved['late']:,} → silver.late" in done.stdout
    assert contents(landed) == expected[1]
    assert check_ledger(spark, landed).faults == []


def test_no_follower_of_silver_is_handed_a_row_behind_its_watermark(
    spark: SparkSession, landed: Settings, expected: tuple[RedriveResult, Contents]
) -> None:
    """The enricher and the windows over it run before the redrive and after it; a dropped row would stop them."""
    jobs = [job_named("clicks_enriched"), job_named("views_per_minute")]
    shutil.rmtree(landed.home / "checkpoints" / "g1" / "clicks_enriched", ignore_errors=True)
    shutil.rmtree(landed.home / "checkpoints" / "g1" / "views_per_minute", ignore_errors=True)
    Runner(landed, spark).run(jobs, until_caught_up=True)
    redrive(spark, landed, 1)
    Runner(landed, spark).run(jobs, until_caught_up=True)
    enriched = read_arrow(table_location(landed, "silver.clicks_enriched"), columns=["partition", "offset"])
    assert sorted(tuple(row.values()) for row in enriched.to_pylist()) == expected[1]["silver.clicks"]
