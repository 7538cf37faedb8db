"""Freshness: of what came as time passed, in what was served then, by the record that waited longest."""

from datetime import UTC, datetime, timedelta

from landings import land

from config.settings import Settings
from lake import generations
from streaming.freshness import ANSWER, freshness, percentiles


def test_it_is_of_what_was_served_as_it_came(fresh_home: Settings) -> None:
    first = land(fresh_home, 1, 0, 4.0, 7.0, 1.0)
    land(fresh_home, 1, 1, 3.0, 90_000.0)  # it had been waiting in the log
    land(fresh_home, 2, 0, 5.0)  # a replay, not served yet
    generations.switch(fresh_home, {"silver.late": 2}, "promote")
    last = land(fresh_home, 2, 1, 6.0)
    found = [(row["answer"], row["at"] - timedelta(seconds=row["seconds"])) for row in freshness(fresh_home)]
    assert found == [(ANSWER, first), (ANSWER, last)]


def test_a_single_batch_has_no_percentiles() -> None:
    rows = [{"answer": "stream", "at": datetime.now(UTC), "seconds": float(number)} for number in range(1, 22)]
    assert percentiles(rows) == {"stream": (11.0, 20.0)}
    assert percentiles(rows[:1]) == {}
