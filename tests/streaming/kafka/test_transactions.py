"""Transactions on a real broker: records and offsets are there together or not at all, and nobody waits for ever."""

import os
import signal
import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest
from kafka import KafkaAdminClient, OffsetAndMetadata, TopicPartition
from kafka.admin import NewTopic
from kafka.structs import ConsumerGroupMetadata
from raw_clicks import committed_since

from config.kafka import python_options
from config.settings import Settings
from local.broker import Broker
from streaming.kafka.consumer import RetryBatchError
from streaming.kafka.transactions import Message, Transactions, process_id


@pytest.fixture
def topic(settings: Settings, broker: object) -> Iterator[str]:
    """A topic of the test's own, with one partition; the group is called like it."""
    name = f"written-{uuid.uuid4().hex}"
    with closing(KafkaAdminClient(**python_options(settings))) as admin:
        admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=1)])
        yield name
        admin.delete_topics([name])


def write(transactions: Transactions, topic: str, text: str) -> None:
    offsets = {TopicPartition(topic, 0): OffsetAndMetadata(1, "", -1)}
    message = Message(topic, 0, b"key", text.encode(), [], 5)
    transactions.write([message], offsets, ConsumerGroupMetadata(group_id=topic))


def written(settings: Settings, topic: str) -> list[bytes]:
    return [record.value for record in committed_since(settings, {(topic, 0): 0}, topic).get(0, [])]


def test_a_log_that_is_silent_is_not_waited_for_and_the_next_try_counts_once(
    settings: Settings, broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
):
    with closing(Transactions(settings, "test", topic, seconds=20)) as transactions:
        write(transactions, topic, "first")
        monkeypatch.setattr(transactions, "_timeout", 1.0)
        pid = broker.status().pid
        assert pid
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(RetryBatchError):
                write(transactions, topic, "second")
        finally:
            os.kill(pid, signal.SIGCONT)
        monkeypatch.undo()
        write(transactions, topic, "second")
    assert written(settings, topic) == [b"first", b"second"]


def test_the_next_producer_of_an_id_ends_what_the_last_one_left(settings: Settings, topic: str):
    with closing(Transactions(settings, "test", topic)) as left:
        left._producer.begin_transaction()
        left._producer.send(topic, b"half done").get(timeout=300)
        with closing(Transactions(settings, "test", topic)) as next_one:
            write(next_one, topic, "done")
        with pytest.raises(RetryBatchError):
            write(left, topic, "too late")
    assert written(settings, topic) == [b"done"]


def test_processes_of_a_role_have_ids_of_their_own_and_give_them_back(fresh_home: Settings):
    with process_id(fresh_home, "test") as first, process_id(fresh_home, "test") as second:
        assert first != second
    with process_id(fresh_home, "test") as again:
        assert again == first
