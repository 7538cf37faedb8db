"""The sources of a job: how long it waits for events that come out of order."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from config.declarations import table_named
from config.settings import Settings
from lake.generations import TableGenerations, serving
from streaming import sources
from streaming.sources import Sources

ENRICHED = "silver.clicks_enriched"


class Rows:
    """Stands for a stream: remembers the delay that it was given."""

    delay = ""

    def withWatermark(self, column: str, delay: str) -> "Rows":
        assert column == "event_time"
        self.delay = delay
        return self


class Session:
    """Stands for Spark: every table that is read is the same stream."""

    def __init__(self) -> None:
        self.rows = Rows()
        self.readStream = self

    def format(self, _: str) -> "Session":
        return self

    def option(self, *_: Any) -> "Session":
        return self

    def load(self, _: str) -> Rows:
        return self.rows


@pytest.fixture
def delay(fresh_home: Settings) -> Callable[..., str]:
    def delay(name: str, build: TableGenerations | None = None, *, from_first: bool = True) -> str:
        session: Any = Session()
        Sources(fresh_home, session, build or serving(fresh_home), from_first=from_first).table(name)
        return str(session.rows.delay)

    return delay


def seconds(delay: timedelta) -> str:
    return f"{int(delay.total_seconds()) + 1} seconds"


def test_live_it_is_the_declared_disorder_and_the_skew_of_partitions(delay: Any, fresh_home: Settings) -> None:
    declared = table_named("silver.clicks").disorder
    assert declared
    assert delay("silver.clicks") == seconds(declared + timedelta(minutes=fresh_home.streaming.skew_minutes))


def test_a_table_without_disorder_has_none(delay: Any) -> None:
    assert table_named("silver.users").disorder is None
    assert delay("silver.users") == ""


def test_a_replay_waits_as_long_as_its_own_log_was_out_of_order(delay: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []

    def disorder(_: Settings, topic: str, generation: int) -> timedelta:
        asked.append((topic, generation))
        return timedelta(days=2)

    monkeypatch.setattr(sources, "disorder", disorder)
    assert delay(ENRICHED, TableGenerations({"silver.clicks": 2, ENRICHED: 2}, replay=2)) == seconds(timedelta(days=2))
    assert asked == [("clicks", 2)]


def test_a_replay_that_computes_history_waits_as_live(delay: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "disorder", lambda *_: timedelta(days=2))
    build = TableGenerations({ENRICHED: 2}, replay=2)
    assert delay(ENRICHED, build, from_first=False) == delay(ENRICHED)


def test_but_never_less_than_live_as_it_becomes_the_live_job(delay: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "disorder", lambda *_: timedelta(0))
    assert delay(ENRICHED, TableGenerations({ENRICHED: 2}, replay=2)) == delay(ENRICHED)


def test_a_replay_of_some_jobs_waits_as_long_as_the_tables_it_reads_were_out_of_order(
    delay: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "disorder", lambda _, __, generation: timedelta(days=generation))
    build = TableGenerations({"silver.clicks": 2, ENRICHED: 3}, replay=3)
    assert delay("silver.clicks", build) == delay(ENRICHED, build) == seconds(timedelta(days=2))
