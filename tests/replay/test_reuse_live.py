"""A replay reuses served silver tables while landing goes on: it takes whole batches only, and goes on in the log."""

from collections.abc import Iterator
from typing import Any

import pytest
from days import Days, followed, goes_on
from pyspark.sql import SparkSession

from config.errors import LakehouseError
from config.settings import Settings
from lake import ledger
from lake.tables import read
from local.broker import Broker
from replay import certificate, manifest, promotion, reuse
from replay import run as running
from streaming.checkpoint import last_checkpoint
from streaming.job import job_named


def nothing(*_: Any) -> None:
    """Watch nothing."""


@pytest.fixture
def days(settings: Settings, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Days]:
    """A log of one day that every job has followed."""
    home = settings.at(tmp_path_factory.mktemp("reuse"))
    broker = Broker(home)
    broker.start()
    try:
        days = Days(home, spark)
        days.arrive()
        days.follow()
        yield days
    finally:
        broker.stop()


def die(*_: Any) -> None:
    """Stand for a kill."""
    raise OSError("killed")


def landed(days: Days, generation: int) -> ledger.Ends:
    return ledger.landed_up_to(days.settings, "landing", generation)


def clicks(days: Days, generation: int) -> int:
    return read(days.spark, "silver.clicks", days.settings, generation).count()


def test_it_takes_whole_batches_of_a_landing_that_goes_on_and_is_then_followed_in_kafka(
    days: Days, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, rows = landed(days, 1), clicks(days, 1)
    days.arrive()
    with monkeypatch.context() as patch, pytest.raises(LakehouseError, match="landing"):
        patch.setattr(ledger, "record_entry", die)
        days.follow()
    assert clicks(days, 1) > rows, "the batch is in silver, and not in the ledger"
    assert landed(days, 1) == before

    todo = manifest.new(days.settings, followed(), "silver", "earliest")
    with monkeypatch.context() as patch, pytest.raises(OSError, match="killed"):
        patch.setattr(reuse, "failpoint", die)
        running.run(days.spark, days.settings, todo)
    days.follow()  # what is copied was fixed before
    assert landed(days, 1) != before
    built = running.run(days.spark, days.settings, manifest.interrupted(days.settings, todo.generation))
    assert landed(days, built.generation) == before

    found = certificate.verify(days.spark, days.settings, built, nothing)
    assert (found.unexplained, found.failures) == (0, [])
    assert promotion.promote(days.spark, days.settings, built, None, nothing).passed
    days.arrive()
    goes_on(days, built.generation)
    assert last_checkpoint(job_named("landing"), days.settings, built.generation).epoch == 2
    assert all(end > before[place] for place, end in landed(days, built.generation).items() if place[0] == "clicks")
