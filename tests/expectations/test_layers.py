"""Layers as they are served: what is there is checked, by its own rules; what is not is said to be missing."""

import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from handmade import Lake, Log, change, click
from pyspark.sql import SparkSession

import lakehouse
from config.settings import Settings
from expectations import layers

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run a command line as a user would; give its exit code and what it printed."""

    def command(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["lakehouse", *arguments])
        with pytest.raises(SystemExit) as end:
            lakehouse.main()
        return int(end.value.code or 0), capsys.readouterr().out

    return command


@pytest.mark.parametrize("what", ["all", "silver", "ledger"])
def test_on_an_empty_home_a_check_says_what_to_do(run, fresh_home: Settings, what: str) -> None:
    code, output = run("check", what)
    assert code == 0
    for command in ("lakehouse broker start", "lakehouse simulate", "lakehouse stream run"):
        assert command in output
    assert not (fresh_home.home / "reports").exists()


def test_on_an_empty_home_quarantine_is_empty(run, fresh_home: Settings) -> None:
    for command in ("list", "redrive"):
        assert run("quarantine", command) == (0, "Quarantine is empty: no record broke a rule.\n")


def test_what_landed_passes_until_someone_else_writes_into_it(run, spark: SparkSession, fresh_home: Settings) -> None:
    lake, log = Lake(spark, fresh_home), Log()
    log.send(change("c1", NOON, "gold", op="c"), topic="users")
    for number in range(4):
        log.send(click(f"e{number}"))
    log.send(click("e9", dwell_ms=-1))
    lake.land(log.records)
    (audit,) = layers.check(spark, fresh_home, "silver")
    assert audit.passed, audit.failures
    assert {each.table for each in audit.findings} >= {"silver.clicks", "silver.users", "silver.quarantine"}
    assert any(each.rule == "as_the_ledger_says" for each in audit.findings)
    assert layers.check(spark, fresh_home, "gold") == []
    path = str(Path(fresh_home.warehouse) / "silver" / "clicks" / "g1")
    spark.sql(f"update delta.`{path}` set dwell_ms = -5 where event_id = 'e1'")
    spark.sql(f"delete from delta.`{path}` where event_id = 'e2'")
    code, output = run("check", "silver", "--docs")
    assert code == 1
    assert "✗ silver.clicks: Time spent on a page is not negative. (dwell_not_negative, 1 row)" in output
    assert "event_id e1, event_time 2026-01-05T12:00:00.000Z, dwell_ms -5" in output
    assert "✗ silver.clicks: The table has as many rows as the ledger counts as 'silver'." in output
    assert "lakehouse check ledger" in output
    assert "index.html" in output
    code, output = run("quarantine", "list")
    assert "dwell_not_negative" in output
    code, output = run("quarantine", "show", "--rule", "dwell_not_negative")
    assert "clicks/0/4" in output
    assert '"dwell_ms":-1' in output


def test_what_dbt_serves_keeps_the_rules_of_gold(spark: SparkSession, fresh_home: Settings) -> None:
    assert layers.check(spark, fresh_home, "serving") == []
    spark.sql("create database serving")
    try:
        row = "select 'o1' order_id, '{}' status, timestamp'2026-01-05' status_time, 's1' status_event_id, 1L changes"
        spark.sql(f"create view serving.lambda_order_status as {row.format('paid')}")
        spark.sql(f"create view serving.kappa_order_status as {row.format('lost')}")
        good, bad = layers.check(spark, fresh_home, "serving")
    finally:
        spark.sql("drop database serving cascade")
    assert (good.name, good.passed) == ("check serving lambda", True)
    (failure,) = bad.failures
    assert failure.table == "serving.kappa_order_status"
    assert "from serving.kappa_order_status where" in failure.look
