"""A day that was landed, followed and recomputed, and all of it replayed: built once for the tests of this folder."""

from typing import Any

import pytest
from copies import with_copies
from gold import catch_up, records_of
from handmade import Lake
from pyspark.sql import SparkSession
from with_batch import publish

from config.settings import Settings
from local.simulator.plan import Plan
from replay import certificate, manifest
from replay import run as running
from replay.manifest import Replay
from streaming.job import jobs


def nothing(*_: Any) -> None:
    """Watch nothing."""


@pytest.fixture(scope="package")
def lake(spark: SparkSession, settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A day that was landed in two batches, each followed by every job, and recomputed by the batch layer."""
    lake = Lake(spark, settings.at(tmp_path_factory.mktemp("replay")))
    records = with_copies(records_of(Plan(seed=31, events=1_500, late=0.04, duplicates=0.03, malformed=0.01)))
    # A job without state knows its watermark one batch late: the last one is short, so that most rows are final.
    most = len(records) * 9 // 10
    for part in (records[:most], records[most:]):
        lake.land(part)
        catch_up(lake)
    publish(spark, lake.settings)
    return lake


@pytest.fixture(scope="package")
def built(lake: Lake) -> Replay:
    """All of it replayed from the archive, broken off at its last step and resumed; test_live.py does at the others."""
    todo = manifest.new(lake.settings, list(jobs().values()), "bronze", "earliest")

    def die(place: str) -> None:
        if place == "after replay closing":
            raise OSError(place)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "failpoint", die)
        with pytest.raises(OSError, match="after replay closing"):
            running.run(lake.spark, lake.settings, todo)
    return running.run(lake.spark, lake.settings, manifest.interrupted(lake.settings, todo.generation))


@pytest.fixture(scope="package")
def against(lake: Lake, built: Replay) -> dict[str, Any]:
    """What its certificate says."""
    found: dict[str, Any] = certificate.verify(lake.spark, lake.settings, built, nothing).values["against"]
    return found
