"""A broker that is away stops neither the simulator nor the router: they wait, say so, and go on when it is back."""

import io
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import pytest
from kafka import KafkaProducer
from payments import until
from raw_clicks import raw

from config.kafka import end_offsets, python_options
from config.settings import Settings
from config.terminal import Terminal
from local.broker import Broker
from local.simulator.plan import Plan
from local.simulator.run import simulate
from streaming.kafka.consumer import Progress
from streaming.roles.router.router import run

pytestmark = pytest.mark.jvm


@pytest.fixture
def broker(settings: Settings, tmp_path: Path) -> Iterator[Broker]:
    """A broker that the test may stop."""
    broker = Broker(settings.at(tmp_path))
    broker.start()
    yield broker
    broker.stop()


def test_simulator_and_router_wait_for_a_broker_that_is_away_and_go_on(broker: Broker) -> None:
    mine, shown, stop, seen = broker.settings, io.StringIO(), Event(), [Progress()]
    with ThreadPoolExecutor() as pool:
        routing = pool.submit(run, mine, watch=lambda progress, _: seen.append(progress), stop=stop)
        try:
            send(mine)
            until(lambda: seen[-1].records == 1, seconds=60)
            plan = Plan(seed=5, events=900, start=datetime.now(UTC), live=10)
            sending = pool.submit(simulate, mine, plan, Terminal(file=shown, width=200))
            until(lambda: sum(end_offsets(mine, ["clicks"]).values()) > 20, seconds=60)
            broker.stop()
            until(lambda: "waiting for Kafka" in shown.getvalue() and seen[-1].waiting_since is not None, seconds=60)
            assert not (sending.done() or routing.done())
            broker.start()
            send(mine)
            assert sending.result(timeout=60).records
            assert "Kafka answers again" in shown.getvalue()
            until(lambda: seen[-1].records == 2 and seen[-1].waiting_since is None, seconds=60)
        finally:
            stop.set()
            broker.start()  # otherwise the simulator would wait forever
        assert routing.result(timeout=60)[1].kept == 2


def send(settings: Settings) -> None:
    """Send a raw click."""
    with closing(KafkaProducer(**python_options(settings))) as producer:
        producer.send("clicks_raw", json.dumps(raw()).encode(), partition=0).get(timeout=30)
