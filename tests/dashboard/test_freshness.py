"""Freshness: of what came as time passed, in what was served then, by the record that waited longest."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from batch import publications  # feature: batch
from config.settings import Settings
from dashboard.freshness import freshness, percentiles
from lake import generations, ledger
from lake.batch import Batch


def land(home: Settings, generation: int, batch: int, *waited: float) -> datetime:
    """Record a batch that has just landed, and how long before each of its partitions' oldest record had arrived.

    Give when the oldest of all arrived.
    """
    now = datetime.now(UTC)
    came = {"job": "landing", "generation": generation, "epoch": 1, "batch": batch, "topic": "clicks"}
    entry: list[dict[str, Any]] = [
        {**came, "partition": number, "min_arrival_time": now - timedelta(seconds=seconds), "max_arrival_time": now}
        for number, seconds in enumerate(waited)
    ]
    common: dict[str, Any] = {"rows": None, "job": "landing", "epoch": 1, "settings": home}
    ledger.record_entry(entry, Batch(**common, id=batch, generation=generation))
    return now - timedelta(seconds=max(waited))


def test_it_is_of_what_was_served_as_it_came(fresh_home: Settings) -> None:
    first = land(fresh_home, 1, 0, 4.0, 7.0, 1.0)
    land(fresh_home, 1, 1, 3.0, 90_000.0)  # it had been waiting in the log
    land(fresh_home, 2, 0, 5.0)  # a replay, not served yet
    generations.switch(fresh_home, {"silver.late": 2}, "promote")
    last = land(fresh_home, 2, 1, 6.0)
    found = [(row["answer"], row["at"] - timedelta(seconds=row["seconds"])) for row in freshness(fresh_home)]
    assert found == [("stream", first), ("stream", last)]


# feature: batch
def test_the_batch_layer_has_it_when_a_run_that_began_afterwards_is_published(fresh_home: Settings) -> None:
    before = datetime.now(UTC).strftime(publications.RUN_NAME)[:-3]
    land(fresh_home, 1, 0, 4.0)
    publications.publish(fresh_home, before, {"gold.sessions": {datetime.now(UTC).date(): before}})
    assert [row["answer"] for row in freshness(fresh_home)] == ["stream"]
    began = datetime.now(UTC) + timedelta(seconds=1)
    run = began.strftime(publications.RUN_NAME)[:-3]
    segment = {began.date(): run}
    published = publications.publish(fresh_home, run, {"gold.sessions": segment, "gold.trending": segment})
    stream, batch = freshness(fresh_home)
    assert (stream["answer"], batch["answer"]) == ("stream", "batch")
    waited = published.published_at - stream["at"] + timedelta(seconds=stream["seconds"])
    assert batch["seconds"] == pytest.approx(waited.total_seconds(), abs=0.001)
    publications.publish_again(fresh_home, run)
    assert freshness(fresh_home)[1] == batch


# end of feature: batch
def test_a_single_batch_has_no_percentiles() -> None:
    rows = [{"answer": "stream", "at": datetime.now(UTC), "seconds": float(number)} for number in range(1, 22)]
    assert percentiles(rows) == {"stream": (11.0, 20.0)}
    assert percentiles(rows[:1]) == {}
