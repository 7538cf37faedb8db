"""Freshness of the batch layer: a record counts when a run that read it is published."""

from datetime import UTC, datetime, timedelta

import pytest
from landings import land

from batch import publications
from config.settings import Settings
from streaming.freshness import freshness


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
