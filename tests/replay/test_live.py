"""A replay of a real log while it goes on: readers never see a mix, and no event falls between two generations."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from days import Days, followed, goes_on
from payments import until
from pyspark.sql import SparkSession

from config.declarations import table_named
from config.errors import LakehouseError
from config.settings import Settings
from expectations.parity.rows import content_hash
from lake import generations, ledger
from lake.location import table_location
from lake.tables import read
from lake.views import views
from local.broker import Broker
from replay import certificate, manifest, promotion
from replay import run as running
from replay.manifest import Replay
from streaming.checkpoint import last_checkpoint
from streaming.job import job_named

READ_TOGETHER = ["silver.late", "silver.clicks", "gold.sessions", "gold.views_per_minute"]
Counts = tuple[int, ...]


def nothing(*_: Any) -> None:
    """Watch nothing."""


@dataclass(frozen=True)
class Replays:
    """Two replays of the same day: of the log, which is built, and of its archive, which was broken off."""

    of_log: Replay
    contents: dict[str, str]
    """By table, what the replay of the log had built before more was landed into it."""

    of_archive: int
    landed: int
    """How many records had landed when both began."""


@pytest.fixture(scope="module")
def days(settings: Settings, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Days]:
    """One day that every job has read, with events that came too late for it."""
    home = settings.at(tmp_path_factory.mktemp("live"))
    broker = Broker(home)
    broker.start()
    try:
        days = Days(home, spark)
        days.arrive()
        days.follow()
        yield days
    finally:
        broker.stop()


@pytest.fixture
def log(days: Days) -> Settings:
    return days.settings


@pytest.fixture(scope="module")
def replays(days: Days) -> Replays:
    """Replay the first day twice; the second one dies at its first step, and before the open rows are closed."""
    spark, settings = days.spark, days.settings
    landed = ledger.total(ledger.entries(settings), "input")
    of_log = replayed(spark, settings, "kafka")
    archive = manifest.new(settings, followed(), "bronze", "earliest")
    die_at = Dying("after replay manifest", "after replay run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "failpoint", die_at)
        for place in list(die_at.places):
            with pytest.raises(OSError, match=place):
                running.run(spark, settings, archive)
    return Replays(of_log, contents(spark, settings, of_log), archive.generation, landed)


def replayed(spark: SparkSession, settings: Settings, source: generations.Source) -> Replay:
    todo = manifest.new(settings, followed(), source, "earliest")
    return running.run(spark, settings, todo)


def contents(spark: SparkSession, settings: Settings, built: Replay) -> dict[str, str]:
    """Hash every table that a replay has built."""
    tables = [table_named(name) for name in built.tables]
    return {table.name: content_hash(read(spark, table.name, settings, built.generation), table) for table in tables}


def counts(spark: SparkSession, settings: Settings, number: int | None = None) -> Counts:
    """Count several tables in one query: as readers find them, or of one generation."""
    asked = views(settings)
    tables = [
        f"({asked[name]})" if number is None else f"delta.`{table_location(settings, name, number)}`"
        for name in READ_TOGETHER
    ]
    row = spark.sql("select " + ", ".join(f"(select count(*) from {table})" for table in tables)).collect()[0]
    return tuple(row)


class Dying:
    """Dies at each of some failpoints, the first time that it comes there."""

    def __init__(self, *places: str) -> None:
        self.places = list(places)

    def __call__(self, place: str) -> None:
        if place in self.places:
            self.places.remove(place)
            raise OSError(place)


@pytest.fixture
def reading() -> Iterator[Callable[[Callable[[], Counts]], list[Counts]]]:
    """Read again and again beside the test; what was read, errors too, is in the list that it gives."""
    done = threading.Event()
    threads = []

    def begin(read: Callable[[], Counts]) -> list[Any]:
        found: list[Any] = []

        def go_on() -> None:
            while not done.is_set():
                try:
                    found.append(read())
                except Exception as error:
                    found.append(error)

        threads.append(threading.Thread(target=go_on))
        threads[-1].start()
        return found

    yield begin
    done.set()
    for thread in threads:
        thread.join()


def test_across_a_promotion_nothing_is_lost_doubled_or_mixed(
    days: Days, replays: Replays, log: Settings, spark: SparkSession, reading: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = counts(spark, log)
    built = replays.of_log
    found = certificate.verify(spark, log, built, nothing).values["against"]["what is served"]
    assert {reason for each in found.values() for reason in each["by_reason"]} == {"late"}
    days.arrive()  # after the replay has ended and before it is served
    after = counts(spark, log, built.generation)
    assert after[0] == 0 and after[0] != before[0]

    die_at = Dying("before ops.generations", "after ops.generations")
    seen = reading(lambda: counts(spark, log))
    monkeypatch.setattr(promotion, "failpoint", die_at)
    for expected in (before, after):
        with pytest.raises(OSError, match=r"ops\.generations"):
            promotion.promote(spark, log, built, None, nothing)
        assert counts(spark, log) == expected
    assert not die_at.places
    with pytest.raises(LakehouseError, match="is served already"):
        promotion.promote(spark, log, built, None, nothing)
    until(lambda: seen[-1:] == [after], seconds=60)
    assert set(seen) == {before, after}

    goes_on(days, built.generation)
    assert set(promotion.rollback(log).values()) == {1}
    goes_on(days, 1)


@pytest.fixture(scope="module")
def resumed(days: Days, replays: Replays) -> Replay:
    """The replay of the archive, brought to its end after more has landed."""
    days.arrive()
    days.follow()
    return running.run(days.spark, days.settings, manifest.interrupted(days.settings, replays.of_archive))


def test_the_log_and_its_archive_give_equal_generations(
    replays: Replays, resumed: Replay, log: Settings, spark: SparkSession
) -> None:
    assert {"silver.clicks", "gold.sessions", "gold.views_per_minute"} <= set(replays.contents)
    assert contents(spark, log, resumed) == replays.contents


def test_a_replay_of_the_archive_broken_off_at_any_step_goes_on_in_the_log(
    days: Days,
    replays: Replays,
    resumed: Replay,
    log: Settings,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Its delay was set by the disorder of what had landed: nothing may come after it, however late that is.
    assert resumed.records == replays.landed
    verified = certificate.verify(spark, log, resumed, nothing)
    assert (verified.unexplained, verified.failures) == (0, [])
    monkeypatch.setattr(promotion, "failpoint", Dying("after replay epoch"))
    with pytest.raises(OSError, match="after replay epoch"):
        promotion.promote(spark, log, resumed, None, nothing)
    days.arrive()
    days.follow()
    assert promotion.promote(spark, log, resumed, None, nothing).passed
    landing = last_checkpoint(job_named("landing"), log, resumed.generation)
    assert landing.epoch == 2, "it leaves the archive once"
    goes_on(days, resumed.generation)
