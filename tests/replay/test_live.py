"""A replay of a real log while it goes on: readers never see a mix, and no event falls between two generations."""

import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from config.settings import Settings
from expectations.ledger_check import check_ledger, check_truth
from expectations.parity.rows import content_hash
from lake import generations, ledger
from lake.location import table_location
from lake.tables import read
from lake.views import views
from local.broker import Broker
from local.simulator.plan import Plan
from local.simulator.run import simulate
from local.simulator.truth import read_truth
from replay import certificate, manifest, promotion
from replay import run as running
from replay.manifest import Replay
from streaming.checkpoint import last_checkpoint
from streaming.job import Job, job_named
from streaming.runner import Runner

READ_TOGETHER = ["silver.late", "silver.clicks", "gold.sessions", "gold.views_per_minute"]
Counts = tuple[int, ...]


def nothing(*_: Any) -> None:
    """Watch nothing."""


@pytest.fixture
def log(fresh_home: Settings, spark: SparkSession) -> Iterator[Settings]:
    """A log that was followed by every job, with events that came too late for it."""
    broker = Broker(fresh_home)
    broker.start()
    try:
        arrive(fresh_home, 1)
        Runner(fresh_home, spark).run(followed(), until_caught_up=True)
        yield fresh_home
    finally:
        broker.stop()


def arrive(settings: Settings, day: int) -> None:
    """Send a day's events; the first of them lie a little before the last of the day before, as they do in a log."""
    start = Plan().start + timedelta(days=day) - day * timedelta(minutes=10)
    simulate(settings, Plan(seed=day, start=start, events=800, late=0.05, duplicates=0.03), Console(quiet=True))


def followed() -> list[Job]:
    """Take landing, a job that joins, one that follows it, and one with sessions."""
    return [job_named(name) for name in ("landing", "clicks_enriched", "views_per_minute", "sessions")]


def replayed(spark: SparkSession, settings: Settings, source: generations.Source) -> Replay:
    todo = manifest.new(settings, followed(), source, "earliest")
    return running.run(spark, settings, todo)


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
    log: Settings, spark: SparkSession, reading: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = counts(spark, log)
    built = replayed(spark, log, "kafka")
    found = certificate.verify(spark, log, built, nothing).values["against"]["what is served"]
    assert {reason for each in found.values() for reason in each["by_reason"]} == {"late"}
    arrive(log, 2)  # after the replay has ended and before it is served
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
    assert promotion.promote(spark, log, built, None, nothing).passed  # a rerun changes nothing
    for _ in range(600):
        if seen[-1:] == [after]:
            break
        time.sleep(0.1)
    assert set(seen) == {before, after}

    goes_on(spark, log, built.generation)
    assert set(promotion.rollback(log).values()) == {1}
    goes_on(spark, log, 1)


def lands_more(spark: SparkSession, settings: Settings, day: int) -> None:
    arrive(settings, day)
    Runner(settings, spark).run(followed(), until_caught_up=True)


def goes_on(spark: SparkSession, settings: Settings, generation: int) -> None:
    """Follow the log in a generation, and every record of it."""
    runner = Runner(settings, spark)
    assert {runner.target.of_job(job) for job in followed()} == {generation}
    runner.run(followed(), until_caught_up=True)
    verdict = check_ledger(spark, settings)
    assert (verdict.faults, verdict.waiting) == ([], 0)
    assert verdict.counts
    assert check_truth(spark, settings, read_truth(settings)) == []


def test_a_replay_of_the_archive_broken_off_at_any_step_goes_on_in_the_log(
    log: Settings, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    landed = ledger.total(ledger.entries(log), "input")
    monkeypatch.setattr(running, "failpoint", Dying("after replay run"))
    monkeypatch.setattr(promotion, "failpoint", Dying("after replay epoch"))
    with pytest.raises(OSError, match="after replay run"):
        replayed(spark, log, "bronze")
    lands_more(spark, log, 2)
    # Its delay was set by the disorder of what had landed: nothing may come after it, however late that is.
    built = running.run(spark, log, manifest.interrupted(log, 2))
    assert built.records == landed
    certificate.verify(spark, log, built, nothing)
    with pytest.raises(OSError, match="after replay epoch"):
        promotion.promote(spark, log, built, None, nothing)
    lands_more(spark, log, 3)
    assert promotion.promote(spark, log, built, None, nothing).passed
    assert last_checkpoint(job_named("landing"), log, 2).epoch == 2, "it leaves the archive once"
    goes_on(spark, log, 2)


def test_the_log_and_its_archive_give_equal_generations(log: Settings, spark: SparkSession) -> None:
    built = [replayed(spark, log, "kafka").generation, replayed(spark, log, "bronze").generation]
    both = [table for table in generations.replayable_tables() if set(built) <= set(generations.built(log, table))]
    assert {"silver.clicks", "gold.sessions", "gold.views_per_minute"} <= {table.name for table in both}
    for table in both:
        hashes = {content_hash(read(spark, table.name, log, number), table) for number in built}
        assert len(hashes) == 1, table.name
