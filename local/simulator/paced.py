"""Paced: the records of a plan -> the log, at a set rate, in the same order within each partition as in bulk."""

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
# A shorter sleep costs more than it waits.
_LEAST_WAIT = 0.002


def send(
    settings: Settings, records: Iterable[Record], rate: float, truth: Truth, stop: Event, sent: Callable[[int], None]
) -> None:
    """Send records at `rate` per second until they end or `stop` is set, and add to the truth what Kafka took."""
    with reachable(settings):
        producer = KafkaProducer(**python_options(settings), linger_ms=5, batch_size=131_072)
        window: list[tuple[Record, Any]] = []
        try:
            for record in _by_the_clock(records, rate, stop):
                window.append((record, _send(producer, record)))
                if len(window) == _WINDOW:
                    _confirm(producer, window, truth, sent)
            _confirm(producer, window, truth, sent)
        finally:
            producer.close()


def _by_the_clock(records: Iterable[Record], rate: float, stop: Event) -> Iterator[Record]:
    begin = time.monotonic()
    for n, record in enumerate(records):
        wait = begin + n / rate - time.monotonic()
        if wait > _LEAST_WAIT:
            stop.wait(wait)
        if stop.is_set():
            return
        yield record


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
    """Wait until Kafka has what was sent; this also bounds what waits in memory."""
    producer.flush()
    for _, future in window:
        future.get(timeout=60)
    truth.add([record for record, _ in window])
    sent(len(window))
    window.clear()
