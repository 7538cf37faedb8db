"""Timestamps through Kafka: whatever a producer sets, no record stops landing or the jobs after it."""

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from handmade import NOON, click
from kafka import KafkaProducer
from kafka.errors import KafkaError
from pyspark.sql import SparkSession

from config.errors import LakehouseError
from config.kafka import let_producers_stamp, python_options, refuse_untrusted_arrivals, servers
from config.settings import Settings
from lake.location import table_location
from lake.tables import read_arrow
from local.broker import Broker
from streaming.job import job_named
from streaming.runner import Runner

pytestmark = pytest.mark.jvm

FIRST = datetime(2000, 1, 1, tzinfo=UTC)
GREGORIAN = datetime(1582, 10, 15, tzinfo=UTC).timestamp() * 1000


@pytest.fixture(scope="module")
def home(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """A home with a broker of its own: its topics are still as they were created."""
    mine = settings.at(tmp_path_factory.mktemp("timestamps"))
    broker = Broker(mine)
    try:
        broker.start()
        yield mine
    finally:
        broker.stop()


def external(home: Settings) -> Settings:
    return home.model_copy(update={"kafka": home.kafka.model_copy(update={"servers": servers(home)})})


def send(home: Settings, *clicks: tuple[str, datetime, int]) -> list[int | None]:
    """Send clicks of an id, an event time and a timestamp; return Kafka's timestamps, None if it refused the record."""
    accepted: list[int | None] = []
    with closing(KafkaProducer(**python_options(home), retries=0)) as producer:
        for event_id, event_time, stamp in clicks:
            value = json.dumps(click(event_id, event_time), separators=(",", ":")).encode()
            try:
                sent = producer.send("clicks", value, b"u1", partition=0, timestamp_ms=stamp).get(timeout=300)
                accepted.append(sent.timestamp)
            except (KafkaError, ValueError, OverflowError):
                accepted.append(None)
    return accepted


def test_the_broker_sets_the_arrival_time_until_the_simulator_does(home: Settings) -> None:
    now = datetime.now(UTC)
    (stamp,) = send(home, ("first", now, int((now + timedelta(days=365)).timestamp() * 1000)))
    assert stamp is not None
    assert abs(stamp / 1000 - now.timestamp()) < 60
    refuse_untrusted_arrivals(external(home), ["clicks"])
    with pytest.raises(LakehouseError, match="Kafka replaces the arrival times"):
        let_producers_stamp(external(home))
    let_producers_stamp(home)
    assert send(home, ("second", NOON, int(NOON.timestamp() * 1000))) == [int(NOON.timestamp() * 1000)]
    with pytest.raises(LakehouseError, match="In clicks producers set the arrival time") as error:
        refuse_untrusted_arrivals(external(home), ["clicks"])
    assert "arrival: producer" in str(error.value.hint)
    refuse_untrusted_arrivals(home, ["clicks"])


def test_timestamps_of_every_size_land_with_a_reason(home: Settings, spark: SparkSession) -> None:
    let_producers_stamp(home)
    now, random = datetime.now(UTC), Random(7)
    now_ms = int(now.timestamp() * 1000)
    sizes = [sign * (10**power + random.randrange(10**power)) for power in range(19) for sign in (1, -1)]
    edges = [0, -1, -(2**63), 2**63 - 1, now_ms * 1000, now_ms * 10**6, now_ms + 365 * 86_400_000]
    stamps = [*sizes, *edges]
    # The event time comes from the same wrong clock.
    accepted = send(home, *((f"e{n}", _moment(stamp) or now, stamp) for n, stamp in enumerate(stamps)))
    assert now_ms * 1000 in accepted  # microseconds reach landing
    send(home, ("good", now, now_ms))
    Runner(home, spark).run([job_named(name) for name in ("landing", "clicks_enriched")], until_caught_up=True)
    sent = {f"e{n}": stamp for n, stamp in enumerate(accepted) if stamp is not None}
    quarantined = {row["event_id"]: row for row in _rows(home, "silver.quarantine")}
    wrong = {name for name, stamp in sent.items() if not FIRST.timestamp() <= stamp / 1000 < now.timestamp() + 120}
    assert {name for name, row in quarantined.items() if "arrival_time_implausible" in row["rules"]} == wrong
    landed = {row["event_id"] for row in _rows(home, "silver.clicks")}
    assert landed - {"first", "second"} == (set(sent) - wrong) | {"good"}
    kept = {row["timestamp_ms"] for row in _rows(home, "bronze.events") if row["arrival_time"] is None}
    # Spark reads a time before 1582 as one of the Julian calendar, some days (to the year -292 million: years) away.
    assert {ms for ms in kept if ms >= GREGORIAN} == {sent[name] for name in wrong if sent[name] >= GREGORIAN}
    assert len({ms for ms in kept if ms < GREGORIAN}) == len({sent[name] for name in wrong if sent[name] < GREGORIAN})


def _moment(stamp: int) -> datetime | None:
    """Return the time of a timestamp, if an event can have it."""
    return datetime.fromtimestamp(stamp / 1000, UTC) if 0 <= stamp < 253_402_300_799_000 else None


def _rows(home: Settings, table: str) -> list[dict[str, Any]]:
    return list(read_arrow(table_location(home, table)).to_pylist())
