"""Trace: one event in every layer, and why it is there or not."""

from datetime import timedelta

from handmade import NOON, Lake, Log, click
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from config.settings import Settings
from lakehouse import build
from operations.trace import origins, trace


def test_every_way_of_a_record_is_traced(spark: SparkSession, fresh_home: Settings) -> None:
    log, lake = Log(), Lake(spark, fresh_home)
    log.send(click("a"))
    log.send(click("a"))
    log.send(click("a"), arrival=NOON + timedelta(minutes=30))
    log.send(click("bad", dwell_ms=-1))
    log.send(click("old", NOON - timedelta(days=30, seconds=1)), arrival=NOON)
    lake.land(log.records)
    assert origins(fresh_home, "a") == [("clicks", 0, 0), ("clicks", 0, 1), ("clicks", 0, 2)]
    steps = {offset: trace(fresh_home, ("clicks", 0, offset)) for offset in range(6)}
    assert [[step.table for step in steps[offset]] for offset in range(6)] == [
        ["bronze.events", "silver.clicks"],
        ["bronze.events", "silver.duplicates"],
        ["bronze.events", "silver.late"],
        ["bronze.events", "silver.quarantine"],
        ["bronze.events", "silver.quarantine"],
        ["bronze.events"],
    ]
    assert steps[1][1].detail == "a copy of clicks/0/0"
    assert steps[2][1].detail == "30.0 minutes late, a copy of clicks/0/0"
    assert steps[3][1].detail == "dwell_not_negative: Time spent on a page is not negative."
    assert steps[4][1].detail.startswith("event_time_too_old: ")
    assert not steps[5][0].found
    for event_id, rule in (("bad", "dwell_not_negative"), ("old", "event_time_too_old")):
        by_command = CliRunner().invoke(build(), ["trace", event_id])
        assert by_command.exit_code == 0
        assert rule in by_command.output
    assert CliRunner().invoke(build(), ["trace", "nobody"]).exit_code == 1


def test_an_event_id_that_is_markup_or_controls_the_terminal_is_shown_as_text(
    spark: SparkSession, fresh_home: Settings
) -> None:
    log, lake, hostile = Log(), Lake(spark, fresh_home), "[/x]\x1b[2J"
    log.send(click(hostile))
    log.send(click("bad", user_id=hostile, dwell_ms=-1))
    lake.land(log.records)
    run = CliRunner().invoke
    shown = [run(build(), ["trace", hostile]), run(build(), ["quarantine", "show"])]
    for each in shown:
        assert each.exit_code == 0
        assert "\x1b" not in each.output
    assert r"[/x]\x1b[2J" in shown[0].output
    assert "[/x]" in shown[1].output
