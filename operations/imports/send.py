"""Send: records in event-time order -> Kafka, each with its event time as its timestamp, from a position on."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from config.errors import LakehouseError
from config.failpoints import failpoint
from config.kafka import TOPIC_SECONDS, python_options, reachable
from config.settings import Settings
from operations.imports.check import refuse_too_old
from operations.imports.position import Position, write_position
from streaming.kafka.transactions import Message

STAMP = "message.timestamp.type"
BATCH = 5_000
"""Records between two stored positions: at most so many are sent twice after a kill, and landing finds them."""

_MAX_REQUEST_BYTES = 8 * 2**20  # more than any record that Kafka accepts


def send(
    settings: Settings, topic: str, records: DataFrame, id_: str, position: Position, sent: Callable[[int], None]
) -> None:
    """Send the records after the position."""
    rows = _rows(records, position.sent)
    for confirmed in produce(settings, (_message(topic, row, position.earliest_ms) for row in rows)):
        failpoint("import: sent")
        position = replace(position, sent=position.sent + len(confirmed))
        write_position(settings, id_, position)
        sent(len(confirmed))


def produce(settings: Settings, messages: Iterator[Message]) -> Iterator[list[Any]]:
    """Send messages in order; yield for each batch where Kafka has stored its records, once all are confirmed."""
    with reachable(settings):
        options = {
            **python_options(settings),
            "linger_ms": 50,
            "batch_size": 262_144,
            "max_request_size": _MAX_REQUEST_BYTES,
        }
        with closing(KafkaProducer(**options)) as producer:
            while batch := list(islice(messages, BATCH)):
                futures = [
                    producer.send(m.topic, m.value, m.key, m.headers, m.partition, m.timestamp_ms) for m in batch
                ]
                producer.flush()
                yield [future.get(timeout=60) for future in futures]


def start(records: DataFrame) -> Position:
    """Return the position before the first record. Records without an event time arrive with the first that has one."""
    (row,) = records.agg(F.count("*"), F.min("arrival_ms")).collect()
    return Position(row[0], max(row[1] or 0, 0))


def check_topic(settings: Settings, topic: str, earliest: int) -> None:
    """Refuse a topic that keeps no event times as arrival times, contains newer records, or refuses such old ones.

    In the embedded broker, which serves one user, a topic that the broker stamps is switched to the producer's time.
    """
    refuse_too_old(topic, earliest)
    with reachable(settings), closing(KafkaAdminClient(**python_options(settings))) as admin:
        if not settings.kafka.servers:
            _let_producers_stamp(admin, topic)
        configs = _configs(admin, topic)
        with closing(KafkaConsumer(**python_options(settings))) as consumer:
            partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]
            newer = consumer.offsets_for_times(dict.fromkeys(partitions, earliest + 1))
    if settings.kafka.servers and configs[STAMP] != "CreateTime":
        raise LakehouseError(
            f"Kafka stamps the records of {topic} itself ({STAMP}={configs[STAMP]}): all of the history would arrive "
            "now, and be late.",
            f"Set {STAMP}=CreateTime on {topic} for the import.",
        )
    retention_ms, age_ms = int(configs["retention.ms"]), int(datetime.now(UTC).timestamp() * 1000) - earliest
    if 0 <= retention_ms < age_ms:
        raise LakehouseError(
            f"{topic} keeps records for {retention_ms / 86_400_000:g} days (retention.ms), and the first to import is "
            f"{age_ms / 86_400_000:,.0f} days old: Kafka would delete it before it is landed.",
            f"Set retention.ms of {topic} to -1 until the history is landed.",
        )
    if any(newer.values()):
        raise LakehouseError(
            f"{topic} contains records after {datetime.fromtimestamp(earliest / 1000, UTC):%Y-%m-%d %H:%M:%S}, the "
            "first event to import: the jobs have closed the windows that it belongs to.",
            "Import history before anything newer, the oldest first; or into a home of its own: LAKEHOUSE_HOME=…",
        )


def _let_producers_stamp(admin: Any, topic: str) -> None:
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {STAMP: "CreateTime"})])
    # The broker learns of it a moment later; until then it would replace the first timestamps.
    deadline = time.monotonic() + TOPIC_SECONDS
    while _configs(admin, topic)[STAMP] != "CreateTime" and time.monotonic() < deadline:
        time.sleep(0.05)


def _configs(admin: Any, topic: str) -> dict[str, str]:
    found = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all")
    return {name: each["value"] for name, each in found["topic"][topic].items()}


def _rows(records: DataFrame, skipped: int) -> Iterator[Row]:
    """Read the records partition by partition: all may not fit in memory."""
    return islice(records.toLocalIterator(prefetchPartitions=True), skipped, None)


def _message(topic: str, row: Row, earliest: int) -> Message:
    key = None if row.key is None else row.key.encode()
    arrival = earliest if row.arrival_ms is None else max(row.arrival_ms, 0)
    return Message(topic, None, key, row.value.encode(), [], arrival)
