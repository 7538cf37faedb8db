"""Topics, or all of them, that never had a record: stream, batch, replay, comparison, checks, report and dbt work."""

import os
import subprocess
import sys
from itertools import combinations

import pytest
from event_log import event, moment
from gold import catch_up, differences
from handmade import Lake, Log
from pyspark.sql import SparkSession
from recomputed import published_differences, recompute
from typer.testing import CliRunner

import lakehouse
from batch.comparison_side import batch_side
from config.declarations import tables, topics
from config.errors import LakehouseError
from config.settings import ROOT, Settings
from dashboard import report
from dashboard.figures import gather
from expectations.layers import check
from expectations.ledger_check import LedgerCheck, check_ledger
from expectations.parity.comparison import compared
from expectations.parity.sides import generation_side
from lake.generations import serving
from lake.location import table_location
from replay import certificate, manifest
from replay.promotion import promote
from replay.run import run
from streaming.job import jobs

KINDS = {
    "clicks": ("page_view", "impression", "click", "add_to_cart"),
    "orders": ("order_placed", "order_status_changed"),
    "payments": ("payment_received",),
    "users": ("user_changed",),
}
FILLED = [chosen for size in range(1, len(KINDS) + 1) for chosen in combinations(KINDS, size)]
"""Every choice of topics that have records; the others have none."""

NO_USERS = ("clicks", "orders", "payments")
"""The choice that real logs have most often: a shop without accounts."""


@pytest.fixture
def lake(spark: SparkSession, fresh_home: Settings) -> Lake:
    """Empty tables, not those that the other tests of this folder share."""
    return Lake(spark, fresh_home)


@pytest.mark.parametrize(
    "filled",
    [pytest.param(each, marks=() if each == NO_USERS else pytest.mark.slow, id="-".join(each)) for each in FILLED],
)
def test_with_records_in_some_topics_only_everything_works(
    lake: Lake, log: Log, filled: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    send(log, filled)
    for topic in filled:
        for kind in KINDS[topic] if topic != "users" else ():
            made = event(kind, f"{kind} late", "11:00")
            log.send(made, topic, moment("12:10"), key=made[str(topics()[topic].key)])
    lake.land(log.records)
    catch_up(lake)
    assert differences(lake, log.records) == {}
    assert recompute(lake).publication
    assert published_differences(lake, log.records) == {}
    left = batch_side(lake.spark, lake.settings)
    assert left
    assert {table.name for table in tables().values() if table.layer == "gold"} <= left.tables
    served = generation_side(lake.spark, lake.settings, serving(lake.settings), "stream")
    found = compared(lake.settings, left, served)
    assert {reason for each in found.values() for reason in each.by_reason} <= {"late"}
    built = run(lake.spark, lake.settings, manifest.new(lake.settings, list(jobs().values()), "bronze", "earliest"))
    assert certificate.verify(lake.spark, lake.settings, built, lambda _: None).unexplained == 0
    monkeypatch.setattr("replay.promotion.reset", lambda *_: None)  # its landing would go on with Kafka: there is none
    monkeypatch.setattr("replay.promotion.reset", lambda *_: None)  # landing would continue in Kafka, which is not here
    assert promote(lake.spark, lake.settings, built, None, lambda: None).passed
    assert all(
        audit.passed for layer in ("bronze", "silver", "gold") for audit in check(lake.spark, lake.settings, layer)
    )
    assert gather(lake.settings).flow["input"] == len(log.records)
    assert f"{len(log.records):,}" in report.write(lake.settings).read_text()


def test_without_a_record_in_any_topic_each_command_says_so(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("config.spark", "expectations.commands"):
        monkeypatch.setattr(f"{module}.session", lambda *_, **__: lake.spark)
    catch_up(lake)
    gold = [table.name for table in tables().values() if table.layer == "gold"]
    assert {name: table_location(lake.settings, name).table().count() for name in gold} == dict.fromkeys(gold, 0)
    refusals = {
        "batch run": "The archive is empty.",
        "compare": "There is no batch run to compare with yet.",
        "report": "Nothing was landed in this home yet: there is nothing to report.",
    }
    for command, problem in refusals.items():
        refused = CliRunner().invoke(lakehouse.build(), command.split()).exception
        assert isinstance(refused, LakehouseError) and refused.problem == problem, command
    built = run(lake.spark, lake.settings, manifest.new(lake.settings, list(jobs().values()), "bronze", "earliest"))
    said = {
        "batch status": "There is no run yet.",
        "check": "There is nothing to check: no record has been landed yet.",
        "check ledger": "There is nothing to check: no record has been landed yet.",
        "stream list": "landing",
        "replay plan --source bronze": "unknown: nothing was landed",
        f"replay verify {built.generation}": "Nothing is unexplained, no rule is broken.",
        "quarantine list": "",
    }
    for command, words in said.items():
        done = CliRunner().invoke(lakehouse.build(), command.split())
        assert (done.exit_code, words in done.output) == (0, True), done.output
    assert check_ledger(lake.spark, lake.settings) == LedgerCheck()
    monkeypatch.setattr("replay.promotion.reset", lambda *_: None)  # landing would continue in Kafka, which is not here
    assert promote(lake.spark, lake.settings, built, None, lambda: None).passed


@pytest.mark.slow
@pytest.mark.parametrize("filled", [(), *((topic,) for topic in KINDS), NO_USERS], ids="-".join)
def test_dbt_builds_what_there_is(lake: Lake, log: Log, filled: tuple[str, ...]) -> None:
    send(log, filled)
    if filled:
        lake.land(log.records)
    catch_up(lake)
    assert not filled or recompute(lake).publication
    environ = os.environ | {"LAKEHOUSE_HOME": str(lake.settings.home)}
    command = [sys.executable, "-m", "lakehouse", "dbt", "build"]
    done = subprocess.run(command, cwd=ROOT, env=environ, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]


def send(log: Log, filled: tuple[str, ...]) -> None:
    """Send an event of each kind to some topics."""
    for topic in filled:
        for number, kind in enumerate(KINDS[topic]):
            made = event(kind, f"{kind} in time", f"12:0{number}")
            log.send(made, topic, key=made[str(topics()[topic].key)])
