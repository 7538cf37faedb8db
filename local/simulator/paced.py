"""Paced: the records of a plan -> Kafka, at a fixed rate or in real time; the order within a partition is kept.

While the broker is away, the run waits and says so. The producer keeps the records that are not acknowledged, and sends
each once, in order, when the broker is back.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from threading import Event
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaTimeoutError

from config.kafka import python_options, reachable
from config.settings import Settings
from config.waiting import answers
from local.simulator.records import Record
from local.simulator.truth import Truth

_WINDOW = 1_000
_WINDOW_SECONDS = 1.0
# A shorter sleep has more overhead than it waits.
_LEAST_WAIT = 0.002
# Until the producer is asked again whether Kafka has answered.
_ANSWER_SECONDS = 2.0
# A broker that answers and acknowledges nothing for so long will not do so later either.
_GIVE_UP_SECONDS = 60.0
_FOREVER_MS = 2**31 - 1

OnWaiting = Callable[[datetime | None], None]
"""Called with the time since when Kafka is away, and with None when it is back."""


def send(
    settings: Settings,
    records: Iterable[Record],
    truth: Truth,
    sent: Callable[[int], None],
    stop: Event,
    on_waiting: OnWaiting = lambda _: None,
) -> None:
    """Send records as the iterator yields them, and add those that Kafka acknowledged to the truth.

    While Kafka is away, wait for it until `stop` is set.
    """
    with reachable(settings):
        producer = KafkaProducer(
            **python_options(settings),
            linger_ms=5,
            batch_size=131_072,
            delivery_timeout_ms=_FOREVER_MS,
            max_block_ms=int(_ANSWER_SECONDS * 1000),
            reconnect_backoff_max_ms=1_000,
        )
        window: list[tuple[Record, Any]] = []
        wait = _Wait(settings, stop, on_waiting)
        try:
            confirmed = time.monotonic()
            for record in records:
                window.append((record, wait.until_done(record.topic, partial(_send, producer, record))))
                if len(window) == _WINDOW or time.monotonic() - confirmed > _WINDOW_SECONDS:
                    _confirm(producer, window, truth, sent, wait)
                    confirmed = time.monotonic()
            _confirm(producer, window, truth, sent, wait)
        finally:
            with suppress(KafkaTimeoutError):  # stopped while Kafka is away: what is left cannot be sent
                producer.close(timeout=_ANSWER_SECONDS)


class _Wait:
    """Repeats what Kafka has not answered in time."""

    def __init__(self, settings: Settings, stop: Event, on_waiting: OnWaiting) -> None:
        self._settings, self._stop, self._on_waiting = settings, stop, on_waiting
        self._away_since: datetime | None = None

    def until_done(self, topic: str, action: Callable[[], Any]) -> Any:
        """Repeat an action until Kafka answers it."""
        failing_since = time.monotonic()
        while True:
            try:
                result = action()
            except KafkaTimeoutError:
                if answers(self._settings, [topic]):
                    if time.monotonic() - failing_since > _GIVE_UP_SECONDS:
                        raise
                elif self._stop.is_set():
                    raise
                else:
                    self._report(self._away_since or datetime.now(UTC))
                    failing_since = time.monotonic()
            else:
                self._report(None)
                return result

    def _report(self, away_since: datetime | None) -> None:
        if away_since != self._away_since:
            self._away_since = away_since
            self._on_waiting(away_since)


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


def _confirm(
    producer: Any, window: list[tuple[Record, Any]], truth: Truth, sent: Callable[[int], None], wait: _Wait
) -> None:
    """Wait until Kafka has acknowledged the window; this also bounds the memory in use."""
    if not window:
        return
    wait.until_done(window[-1][0].topic, lambda: producer.flush(timeout=_ANSWER_SECONDS))
    for _, future in window:
        future.get(timeout=60)
    truth.add([record for record, _ in window])
    sent(len(window))
    window.clear()
