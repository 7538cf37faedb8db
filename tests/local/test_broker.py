"""The embedded broker: it keeps its data, harms nobody, and says the way out of every trouble."""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType

from config.declarations import topics
from config.errors import LakehouseError
from config.kafka import end_offsets, python_options
from config.settings import Settings, load_settings
from local.broker import Broker


@contextmanager
def running(settings: Settings) -> Iterator[Broker]:
    """Give a broker, and see to it that none is left behind."""
    broker = Broker(settings)
    try:
        yield broker
    finally:
        broker.stop()


def pid_file(settings: Settings, text: str) -> Path:
    file = settings.home / "broker" / "pid"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def ended_process() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


@contextmanager
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def test_a_broker_that_never_ran_is_not_running_and_leaves_nothing(fresh_home: Settings) -> None:
    assert not Broker(fresh_home).status().running
    assert not Broker(fresh_home).stop().running
    assert not fresh_home.home.exists()


def test_starting_twice_is_no_error_and_starts_one(broker: Broker, settings: Settings) -> None:
    before = broker.status()
    assert before.running
    assert Broker(settings).start() == before
    assert Broker(settings).status() == before


def test_topics_have_their_declared_partitions(broker: Broker, settings: Settings) -> None:
    admin = KafkaAdminClient(**python_options(settings))
    try:
        found = {topic["name"]: topic for topic in admin.describe_topics(list(topics()))}
    finally:
        admin.close()
    assert {name: len(topic["partitions"]) for name, topic in found.items()} == {
        topic.name: topic.partitions for topic in topics().values()
    }


def kept(settings: Settings) -> dict[str, dict[str, str]]:
    """Read the retention of every topic from a broker."""
    admin = KafkaAdminClient(**python_options(settings))
    try:
        configs = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name) for name in topics()])
    finally:
        admin.close()
    found = configs.get("topic", configs)
    return {name: {key: found[name][key]["value"] for key in topic.retention} for name, topic in topics().items()}


@pytest.mark.jvm
def test_retention_is_as_declared_and_data_survive_a_stop_and_a_dead_pid(fresh_home: Settings) -> None:
    with running(fresh_home) as broker:
        first = broker.start()
        # On the broker of all tests the simulator has switched retention by time off.
        assert kept(fresh_home) == {name: topic.retention for name, topic in topics().items()}
        producer = KafkaProducer(**python_options(fresh_home))
        producer.send("clicks", value=b"kept", partition=2).get(timeout=300)
        producer.close()

        assert broker.stop() == first
        assert not broker.status().running
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", first.port or 0))
        assert not broker.stop().running

        dead = ended_process()
        pid_file(fresh_home, str(dead))
        assert f"process {dead} has ended" in broker.status().note

        again = broker.start()
        assert again.running
        assert again.port == first.port
        assert again.pid not in (first.pid, dead)
        place = TopicPartition("clicks", 2)
        consumer = KafkaConsumer(**python_options(fresh_home), auto_offset_reset="earliest", consumer_timeout_ms=20_000)
        consumer.assign([place])
        assert next(consumer).value == b"kept"
        consumer.close()
        assert broker.log.exists()


def test_a_process_that_was_given_the_same_id_is_left_alone(
    fresh_home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, signal: killed.append(pid))
    file = pid_file(fresh_home, str(os.getpid()))
    assert not Broker(fresh_home).status().running
    assert not Broker(fresh_home).stop().running
    assert killed == []
    assert not file.exists()


@pytest.mark.parametrize("text", ["", "not a number\n"])
def test_a_pid_file_cut_short_is_no_running_broker(fresh_home: Settings, text: str) -> None:
    file = pid_file(fresh_home, text)
    assert not Broker(fresh_home).status().running
    assert not Broker(fresh_home).stop().running
    assert not file.exists()


@pytest.mark.jvm
def test_a_configured_port_that_is_taken_is_named_with_a_hint(
    fresh_home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with taken_port() as port:
        monkeypatch.setenv("LAKEHOUSE_KAFKA__PORT", str(port))
        with running(load_settings()) as broker, pytest.raises(LakehouseError, match=f"Port {port}.*taken") as error:
            broker.start()
    assert "LAKEHOUSE_KAFKA__PORT" in error.value.hint


def test_a_chosen_port_is_remembered_while_it_is_free(fresh_home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    launched: list[int] = []
    monkeypatch.setattr(Broker, "_launch", lambda self, port: launched.append(port))
    monkeypatch.setattr("local.broker.ensure_topics", lambda settings: [])
    Broker(fresh_home).start()
    Broker(fresh_home).start()
    assert launched[0] == launched[1]
    with socket.create_server(("127.0.0.1", launched[0])):
        Broker(fresh_home).start()
    assert launched[2] != launched[0]
    assert Broker(fresh_home).status().port == launched[2]


@pytest.mark.jvm
def test_a_broken_data_folder_is_named_and_set_aside_on_request(fresh_home: Settings) -> None:
    data = fresh_home.home / "broker" / "data"
    data.mkdir(parents=True)
    (data / "meta.properties").write_text("garbage\n")
    with running(fresh_home) as broker:
        with pytest.raises(LakehouseError) as error:
            broker.start()
        assert "lakehouse broker start --reformat" in error.value.hint
        assert str(data) in error.value.problem
        assert not broker.status().running
        assert (data / "meta.properties").read_text() == "garbage\n"

        assert broker.start(reformat=True).running
        (aside,) = data.parent.glob("data.set-aside-*")
        assert (aside / "meta.properties").read_text() == "garbage\n"
        assert set(end_offsets(fresh_home, topics()).values()) == {0}


def test_with_an_external_kafka_nothing_is_touched(fresh_home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_KAFKA__SERVERS", "one.example:9092")
    external = Broker(load_settings())
    for command in (external.start, external.stop):
        with pytest.raises(LakehouseError, match=r"external Kafka \(one\.example:9092\)") as error:
            command()
        assert "kafka.servers" in error.value.hint
    assert not fresh_home.home.exists()
