"""A broker that is away stops nobody: what runs live waits, says so, and goes on when the broker is back."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime
from threading import Event

import pytest
from kafka import KafkaProducer
from payments import until
from pyspark.sql import SparkSession

from config.kafka import python_options
from config.settings import Settings
from lake.ledger import landed_up_to
from local.broker import Broker
from streaming import sources
from streaming.job import job_named
from streaming.kafka.consumer import Group, PolledBatch, Progress, consume
from streaming.runner import Runner


def test_landing_and_a_consumer_wait_for_a_broker_that_is_away_and_go_on(
    spark: SparkSession,
    settings: Settings,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sources, "LIVE_KAFKA_SECONDS", 2.0)
    mine = settings.at(tmp_path_factory.mktemp("away"))
    broker, live, stop = Broker(mine), Runner(mine, spark), Event()
    states, waits, read = set[str](), list[datetime | None](), list[int]()

    def handle(batch: PolledBatch) -> None:
        batch.commit()
        read.extend(record.offset for records in batch.records.values() for record in records)

    def watch(progress: Progress) -> None:
        waits.append(progress.waiting_since)

    broker.start()
    with ThreadPoolExecutor() as pool:
        landing = pool.submit(
            live.run,
            [job_named("landing")],
            until_caught_up=False,
            on_progress=lambda progress: states.update(each.state for each in progress),
        )
        reading = pool.submit(consume, mine, Group("reader", ("clicks",)), handle, watch=watch, stop=stop)
        try:
            send(mine)
            until(lambda: landed_up_to(mine, "landing", 1) == {("clicks", 0): 1} and read == [0], seconds=180)
            broker.stop()
            until(lambda: any("waiting for Kafka" in state for state in states) and any(waits), seconds=180)
            assert not landing.done()
            assert not reading.done()
            broker.start()
            send(mine)
            until(lambda: landed_up_to(mine, "landing", 1) == {("clicks", 0): 2} and read == [0, 1], seconds=180)
            until(lambda: waits[-1] is None, seconds=60)
        finally:
            live.stop()
            stop.set()
            broker.stop()
        assert landing.result(timeout=120)[0].state != "running"
        reading.result(timeout=120)


def send(settings: Settings) -> None:
    """Send a record to the first partition of clicks."""
    with closing(KafkaProducer(**python_options(settings))) as producer:
        producer.send("clicks", b"{}", partition=0)
        producer.flush()
