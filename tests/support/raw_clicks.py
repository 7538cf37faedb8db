"""The web edge in tests: write raw clicks to a real log; compare the expected and the actual output of the router."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from itertools import count
from typing import Any, NamedTuple

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from config.kafka import Offsets, end_offsets, keep_records_of_any_age, let_producers_stamp, python_options
from config.settings import Settings
from local.simulator.people import AGENTS
from local.simulator.plan import Plan
from local.simulator.records import Record
from local.simulator.shop import shard_records
from streaming.roles.router.contract import contract
from streaming.roles.router.page_rate import PageRate
from streaming.roles.router.routing import Decision, route

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


class Written(NamedTuple):
    """The content of a record in the log, without its offset."""

    key: bytes | None
    value: bytes
    headers: tuple[tuple[str, bytes], ...]
    timestamp_ms: int


def user(number: int) -> str:
    """Name a user as the shop does."""
    return f"u{number:012x}"


def raw(**fields: Any) -> dict[str, Any]:
    """Make a raw page view, with any field replaced or, by `...`, left out."""
    click = {
        "event_id": f"{1:032x}",
        "type": "page_view",
        "event_time": NOON.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "schema_version": 1,
        "user_id": user(1),
        "product_id": "p0001",
        "dwell_ms": 1500,
        "ip": "198.51.100.77",
        "user_agent": next(iter(AGENTS)),
    }
    return {name: value for name, value in (click | fields).items() if value is not ...}


def records_of(plan: Plan, topic: str) -> list[Record]:
    """Return a plan's records of one topic in the order of arrival."""
    records = [record for shard in range(plan.shards) for record in shard_records(plan, shard)]
    return sorted((record for record in records if record.topic == topic), key=lambda record: record[2:4])


def new_pace(settings: Settings) -> PageRate:
    """Return a new page counter with the settings of the router."""
    rules = settings.router
    return PageRate(rules.bot_pages, int(rules.bot_seconds * 1000), rules.bot_reach)


def decided(settings: Settings, records: list[Record]) -> list[Decision]:
    """Route records as one uninterrupted process does."""
    paces: dict[int, PageRate] = defaultdict(lambda: new_pace(settings))
    offsets: dict[int, Iterator[int]] = defaultdict(count)
    return [
        route(contract(), paces[record.partition], next(offsets[record.partition]), record.value) for record in records
    ]


def clicks_of(settings: Settings, records: list[Record]) -> dict[int, list[Written]]:
    """Return the expected records of `clicks` after routing: by partition, in order."""
    found: dict[int, list[Written]] = defaultdict(list)
    for record, decision in zip(records, decided(settings, records), strict=True):
        if decision.outcome == "kept":
            written = Written(decision.user.encode(), decision.value, _headers(record), record.arrival_ms)
            found[record.partition].append(written)
    return dict(found)


def send(settings: Settings, records: list[Record]) -> None:
    """Write records to the log, with their headers and arrival times."""
    let_producers_stamp(settings)
    keep_records_of_any_age(settings, {record.topic for record in records})
    with closing(KafkaProducer(**python_options(settings), linger_ms=100, batch_size=262_144)) as producer:
        futures = [
            producer.send(r.topic, r.value, r.key, list(_headers(r)), r.partition, r.arrival_ms) for r in records
        ]
        producer.flush()
        assert all(future.succeeded() for future in futures)


def committed_since(settings: Settings, before: Offsets, topic: str) -> dict[int, list[Any]]:
    """Read the committed records of a topic since some offsets, by partition."""
    places = [TopicPartition(*place) for place in before if place[0] == topic]
    found: dict[int, list[Any]] = defaultdict(list)
    options = {**python_options(settings), "isolation_level": "read_committed", "enable_auto_commit": False}
    with closing(KafkaConsumer(**options)) as consumer:
        ends = end_offsets(settings, [topic])
        consumer.assign(places)
        for place in places:
            consumer.seek(place, before[place])
        while any(consumer.position(place) < ends[place] for place in places):
            for place, records in consumer.poll(timeout_ms=500, max_records=5_000).items():
                found[place.partition] += records
    return dict(found)


def clicks_since(settings: Settings, before: Offsets) -> dict[int, list[Written]]:
    """Read the records of `clicks` since some offsets, in the form of `clicks_of`."""
    return {
        partition: [Written(r.key, r.value, tuple(r.headers), r.timestamp) for r in records]
        for partition, records in committed_since(settings, before, "clicks").items()
    }


def _headers(record: Record) -> tuple[tuple[str, bytes], ...]:
    return (("simulator_id", record.id.encode()),) if record.label == "malformed" else ()
