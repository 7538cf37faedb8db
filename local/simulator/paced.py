"""Paced: the records of a plan -> Kafka, at a fixed rate or in real time; the order within a partition is kept."""

import time
from collections.abc import Callable, Iterable, Iterator
from threading import Event
from typing import Any

from kafka import KafkaProducer

from config.kafka import python_options, reachable
from config.settings import Settings
from local.simulator.records import Record
from local.simulator.truth import Truth

_WINDOW = 1_000
# A shorter sleep has more overhead than it waits.
_LEAST_WAIT = 0.002


def send(settings: Settings, records: Iterable[Record], truth: Truth, sent: Callable[[int], None]) -> None:
    """Send records as the iterator yields them, and add those that Kafka acknowledged to the truth."""
    with reachable(settings):
        producer = KafkaProducer(**python_options(settings), linger_ms=5, batch_size=131_072)
        window: list[tuple[Record, Any]] = []
        try:
            for record in records:
                window.append((record, _send(producer, record)))
                if len(window) == _WINDOW:
                    _confirm(producer, window, truth, sent)
            _confirm(producer, window, truth, sent)
        finally:
            producer.close()


def at_rate(records: Iterable[Record], rate: float, stop: Event) -> Iterator[Record]:
    """Yield records at `rate` per second, until they end or `stop` is set."""
    begin = time.monotonic()
    for n, record in enumerate(records):
        wait = begin + n / rate - time.monotonic()
        if wait > _LEAST_WAIT:
            stop.wait(wait)
        if stop.is_set():
            return
        yield record


def as_they_arrive(records: Iterable[Record], until_ms: int, stop: Event) -> Iterator[Record]:
    """Yield each record at its arrival time by the system clock, until `until_ms`; later records are dropped.

    The arrival time is set to the current time: on a slow machine a record may be sent later than planned.
    """
    for record in records:
        if record.arrival_ms >= until_ms:
            return
        stop.wait(max(record.arrival_ms / 1000 - time.time(), 0))
        if stop.is_set():
            return
        yield record._replace(arrival_ms=int(time.time() * 1000))


def _send(producer: Any, record: Record) -> Any:
    return producer.send(
        record.topic,
        value=record.value,
        key=record.key,
        headers=[("simulator_id", record.id.encode())] if record.label == "malformed" else [],
        partition=record.partition,
        timestamp_ms=record.arrival_ms,
    )


def _confirm(producer: Any, window: list[tuple[Record, Any]], truth: Truth, sent: Callable[[int], None]) -> None:
    """Wait until Kafka has acknowledged the window; this also bounds the memory in use."""
    producer.flush()
    for _, future in window:
        future.get(timeout=60)
    truth.add([record for record, _ in window])
    sent(len(window))
    window.clear()
