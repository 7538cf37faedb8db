"""The fence: where a run has read to, and up to which event time nothing is missing."""

from datetime import UTC, datetime, timedelta

from handmade import NOON, Lake, Log, click

from batch import fence


def test_a_record_from_next_year_does_not_move_it(lake: Lake, log: Log) -> None:
    log.send(click("good"))
    lake.land(log.records)
    _, before = fence.take(lake.spark, lake.settings)
    log.send(click("ahead", datetime.now(UTC) + timedelta(days=365)))
    lake.land(log.records[1:])
    _, after = fence.take(lake.spark, lake.settings)
    assert before.complete_until == after.complete_until
    assert before.complete_until is not None and before.complete_until < NOON
    assert (before.records, after.records) == (1, 2)
