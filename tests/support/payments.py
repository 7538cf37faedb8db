"""Failed payments: write them to the log, serve the stand-in of the payment API, read the results of both."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from config.kafka import python_options
from config.settings import ROOT, ReactorSettings, Settings
from local.payment_api.behaviour import Behaviour
from local.payment_api.server import PaymentApi

QUICK = ReactorSettings(
    call_seconds=60, first_wait_seconds=0.01, longest_wait_seconds=0.02, open_seconds=0.05, tries=6, failures_to_open=5
)


def written(event: dict[str, Any]) -> bytes:
    """Serialize an event as its producers do."""
    return json.dumps(event, separators=(",", ":")).encode()


def payment(**fields: Any) -> dict[str, Any]:
    """Make a valid failed payment with an id of its own, with any field replaced or, by `...`, left out."""
    event = {
        "event_id": uuid4().hex,
        "type": "payment_failed",
        "event_time": "2026-01-05T12:00:00.000Z",
        "schema_version": 1,
        "order_id": uuid4().hex[:12],
        "payment_id": uuid4().hex[:12],
        "merchant_id": "m1",
        "amount_cents": 1999,
        "country": "DE",
        "reason": "card_expired",
    }
    return {name: value for name, value in (event | fields).items() if value is not ...}


def send(settings: Settings, *events: dict[str, Any] | bytes | None, topic: str = "payments") -> None:
    """Write events to the log as their producers do, and raw values unchanged."""
    with closing(KafkaProducer(**python_options(settings))) as producer:
        for event in events:
            key, value = (event["order_id"], written(event)) if isinstance(event, dict) else ("o1", event)
            producer.send(topic, value, key=key.encode()).get(timeout=300)


def committed(settings: Settings, topic: str) -> list[dict[str, Any]]:
    """Read the committed records of a topic."""
    with closing(KafkaConsumer(**python_options(settings), isolation_level="read_committed")) as consumer:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(partitions)
        found: list[dict[str, Any]] = []
        while any(consumer.position(each) < ends[each] for each in partitions):
            for records in consumer.poll(timeout_ms=200).values():
                found += [json.loads(record.value) for record in records]
        return found


def outcomes(settings: Settings, *events: dict[str, Any]) -> list[list[str]]:
    """Return, for each failed payment, its outcomes in payment_retries."""
    retries = committed(settings, "payment_retries")
    return [[one["outcome"] for one in retries if one["retry_of"] == event["event_id"]] for event in events]


def ask(
    address: str, method: str, path: str, body: Any = None, key: str | None = None, seconds: float = 10
) -> tuple[int, dict[str, Any]]:
    """Send a request to the API."""
    connection = HTTPConnection(address.removeprefix("http://"), timeout=seconds)
    content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    with closing(connection):
        connection.request(method, path, content, {"Idempotency-Key": key} if key else {})
        response = connection.getresponse()
        return response.status, json.loads(response.read())


def effects(address: str, *events: dict[str, Any]) -> list[int]:
    """Return, for each failed payment, how often it took effect at the API."""
    keys = ask(address, "GET", "/effects")[1]["keys"]
    return [keys.get(event["event_id"], {"effects": 0})["effects"] for event in events]


def calls(address: str, *events: dict[str, Any]) -> list[int]:
    """Return, for each failed payment, how often the API was called for it."""
    keys = ask(address, "GET", "/effects")[1]["keys"]
    return [keys.get(event["event_id"], {"calls": 0})["calls"] for event in events]


@contextmanager
def serving(settings: Settings, behaviour: Behaviour | None = None) -> Iterator[PaymentApi]:
    """Serve the API in a thread."""
    api = PaymentApi(settings, behaviour)
    thread = Thread(target=api.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield api
    finally:
        api.stop()
        thread.join()


def start(package: str, *arguments: str, home: Path, **environ: str) -> subprocess.Popen[str]:
    """Start a command in its own process; the other commands are not imported, which saves time."""
    program = f"from {package}.commands import app; app()"
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        env=os.environ | {"LAKEHOUSE_HOME": str(home)} | environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def until(holds: Callable[[], bool], seconds: float = 300) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "the condition did not hold in time"
        time.sleep(0.02)
