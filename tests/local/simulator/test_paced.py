"""Paced sending while Kafka does not answer, with a stand-in for the producer."""

from datetime import datetime
from threading import Event
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError

from config.errors import LakehouseError
from config.settings import Settings
from local.simulator import paced
from local.simulator.records import Record
from local.simulator.truth import Truth


class Future:
    def get(self, timeout: float) -> None:
        """Succeed."""


class Producer:
    """Does not answer for some calls, of send and of flush."""

    silent: dict[str, int]
    sent: list[bytes]

    def __init__(self, **_: Any) -> None:
        pass

    def _called(self, name: str) -> None:
        if self.silent[name]:
            self.silent[name] -= 1
            raise KafkaTimeoutError(name)

    def send(self, topic: str, value: bytes, **_: Any) -> Future:
        self._called("send")
        self.sent.append(value)
        return Future()

    def flush(self, timeout: float) -> None:
        self._called("flush")

    def close(self, timeout: float) -> None:
        self._called("flush")


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> type[Producer]:
    """A producer that answers, until a test lets it be silent."""
    Producer.silent, Producer.sent = {"send": 0, "flush": 0}, []
    monkeypatch.setattr(paced, "KafkaProducer", Producer)
    monkeypatch.setattr(paced, "python_options", lambda _: {})
    monkeypatch.setattr(paced, "answers", lambda *_: False)
    monkeypatch.setattr("config.kafka.servers", lambda _: "one.example:9092")
    return Producer


def sent(settings: Settings, stop: Event, waits: list[datetime | None]) -> Truth:
    """Send two records; return the truth of what was acknowledged."""
    records = [
        Record("orders", 0, n, n, key=b"k", value=b"%d" % n, type="placed", id="o", label="valid", kind="", event_ms=n)
        for n in range(2)
    ]
    truth = Truth()
    paced.send(settings, records, truth, lambda _: None, stop, waits.append)
    return truth


@pytest.mark.parametrize("call", ["send", "flush"])
def test_it_waits_while_kafka_is_away_and_sends_each_record_once(
    settings: Settings, kafka: type[Producer], call: str
) -> None:
    kafka.silent[call] = 3
    waits: list[datetime | None] = []
    assert sent(settings, Event(), waits).records == {"orders": 2}
    assert kafka.sent == [b"0", b"1"]
    assert len(waits) == 2  # away, and back
    assert waits[0] is not None
    assert waits[1] is None


def test_stopped_while_kafka_is_away_it_ends(settings: Settings, kafka: type[Producer]) -> None:
    kafka.silent["flush"], stop = 10**9, Event()
    stop.set()
    with pytest.raises(LakehouseError, match="does not answer"):
        sent(settings, stop, [])


def test_a_broker_that_answers_and_takes_nothing_is_given_up(
    settings: Settings, kafka: type[Producer], monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.silent["flush"] = 10**9
    monkeypatch.setattr(paced, "answers", lambda *_: True)
    monkeypatch.setattr(paced, "_GIVE_UP_SECONDS", 0.0)
    waits: list[datetime | None] = []
    with pytest.raises(LakehouseError):
        sent(settings, Event(), waits)
    assert waits == []
