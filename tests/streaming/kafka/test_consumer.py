"""The loop of the plain consumers, on a real broker: every record is handed over until its offsets are committed."""

import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import KafkaTimeoutError

from config.errors import LakehouseError
from config.kafka import python_options
from config.settings import Settings
from lake import losses
from streaming.kafka import consumer
from streaming.kafka.consumer import Group, PolledBatch, Progress, RetryBatchError, consume

PARTITIONS = 2


@pytest.fixture
def topic(settings: Settings, broker: object) -> Iterator[str]:
    """A topic of the test's own, with twenty records in each of two partitions."""
    name = f"consumed-{uuid.uuid4().hex}"
    with closing(KafkaAdminClient(**python_options(settings))) as admin:
        admin.create_topics([NewTopic(name, num_partitions=PARTITIONS, replication_factor=1)])
        send(settings, name, 20)
        yield name
        admin.delete_topics([name])


def send(settings: Settings, topic: str, count: int, **options: object) -> None:
    with closing(KafkaProducer(**python_options(settings), **options)) as producer:
        if "transactional_id" in options:
            producer.init_transactions()
            producer.begin_transaction()
        for number in range(count):
            for partition in range(PARTITIONS):
                producer.send(topic, str(number).encode(), partition=partition)
        producer.flush()
        if "transactional_id" in options:
            producer.commit_transaction()


def group(topic: str, records_per_batch: int = 7) -> Group:
    return Group(topic, (topic,), records_per_batch, session_seconds=6, command="read")


class Role:
    """Takes records in, and commits each batch; what it does before can be set."""

    def __init__(self, first: Callable[[PolledBatch], None] = lambda _: None) -> None:
        self.first, self.done = first, list[tuple[int, int]]()

    def __call__(self, batch: PolledBatch) -> None:
        self.first(batch)
        batch.commit()
        self.done += [(r.partition, r.offset) for records in batch.records.values() for r in records]


EVERY = [(partition, offset) for partition in range(PARTITIONS) for offset in range(20)]


def test_every_record_is_handed_over_once_and_in_order(settings: Settings, topic: str):
    role = Role()
    progress = consume(settings, group(topic), role, until_caught_up=True)
    assert sorted(role.done, key=lambda place: place[0]) == EVERY
    assert (progress.records, progress.lag, progress.partitions, progress.retried) == (40, 0, 2, 0)


def test_the_next_one_goes_on_where_the_last_one_was(settings: Settings, topic: str):
    consume(settings, group(topic), Role(), until_caught_up=True)
    send(settings, topic, 1)
    role = Role()
    consume(settings, group(topic), role, until_caught_up=True)
    assert sorted(role.done) == [(0, 20), (1, 20)]


@pytest.mark.parametrize("error", [RetryBatchError("not yet"), KafkaTimeoutError("no answer")])
def test_a_batch_that_failed_comes_again_whole(settings: Settings, topic: str, error: Exception):
    tries = 0

    def fail_now_and_then(_: PolledBatch) -> None:
        nonlocal tries
        tries += 1
        if tries % 3 == 1:
            raise error

    role = Role(fail_now_and_then)
    progress = consume(settings, group(topic), role, until_caught_up=True)
    assert sorted(role.done) == EVERY
    assert progress.retried >= 2


def test_a_mistake_in_a_role_is_not_swallowed(settings: Settings, topic: str):
    def mistake(_: PolledBatch) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        consume(settings, group(topic), mistake)
    role = Role()
    consume(settings, group(topic), role, until_caught_up=True)
    assert sorted(role.done) == EVERY


def test_what_goes_on_failing_ends_in_an_error_with_the_reason(
    settings: Settings, topic: str, monkeypatch: pytest.MonkeyPatch
):
    def fail(_: PolledBatch) -> None:
        raise RetryBatchError("the disk is full")

    monkeypatch.setattr(consumer, "_GIVE_UP_SECONDS", 0.5)
    with pytest.raises(LakehouseError, match="the disk is full"):  # Kafka answers: this is not waited out
        consume(settings, group(topic), fail)


def test_told_to_stop_it_ends_after_the_batch_and_says_what_waits(settings: Settings, topic: str):
    stop = threading.Event()
    role = Role(lambda _: stop.set())
    progress = consume(settings, group(topic), role, stop=stop)
    assert progress.records == len(role.done) == 7
    assert progress.lag == 33


def test_it_says_how_far_it_is_while_it_runs(settings: Settings, topic: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(consumer, "_REPORT_SECONDS", 0)
    seen: list[Progress] = []
    consume(settings, group(topic), Role(), until_caught_up=True, watch=seen.append)
    assert [each.lag for each in seen if each.records == 7] == [33]
    assert seen[-1].lag == 0


def test_two_share_the_partitions_and_both_wait_for_the_end(settings: Settings, topic: str):
    roles = Role(), Role()
    with ThreadPoolExecutor() as pool:
        both = [pool.submit(consume, settings, group(topic, 1), role, until_caught_up=True) for role in roles]
        for one in both:
            one.result(timeout=300)
    assert sorted(roles[0].done + roles[1].done) == EVERY


def test_who_works_long_keeps_the_place_and_hears_when_it_is_gone(settings: Settings, topic: str):
    begun, joined = threading.Event(), threading.Event()
    heard: list[str] = []

    def work_long(batch: PolledBatch) -> None:
        batch.keep_alive()
        begun.set()
        if not joined.is_set():
            try:
                while True:
                    batch.keep_alive()
                    batch.stop.wait(0.05)
            except RetryBatchError as reason:
                joined.set()
                heard.append(str(reason))
                raise

    first, second = Role(work_long), Role()
    with ThreadPoolExecutor() as pool:
        one = pool.submit(consume, settings, group(topic), first, until_caught_up=True)
        assert begun.wait(300)
        other = pool.submit(consume, settings, group(topic), second, until_caught_up=True)
        assert one.result(timeout=300).retried == 1
        other.result(timeout=300)
    assert heard == ["the group was rebalanced"]
    assert sorted(first.done + second.done) == EVERY


def delete_up_to(settings: Settings, topic: str, offset: int) -> None:
    with closing(KafkaAdminClient(**python_options(settings))) as admin:
        admin.delete_records({TopicPartition(topic, partition): offset for partition in range(PARTITIONS)})


def test_records_that_kafka_deleted_unread_are_an_error_until_the_loss_is_accepted(settings: Settings, topic: str):
    stop = threading.Event()
    consume(settings, group(topic), Role(lambda _: stop.set()), stop=stop)
    delete_up_to(settings, topic, 15)
    role = Role()
    with pytest.raises(LakehouseError, match=rf"no longer has {topic}/[01] offsets 7 to 14 \(8\)") as error:
        consume(settings, group(topic), role, until_caught_up=True)
    assert error.value.hint.startswith('lakehouse read --accept-loss "REASON"')
    assert role.done == []
    consume(settings, group(topic), role, until_caught_up=True, accept_loss="the disk was full")
    assert sorted(role.done) == [place for place in EVERY if place[1] >= 15]
    # Where nothing had been committed, nothing says that the group wanted it.
    (loss,) = losses.recorded(settings, topic)
    assert (loss["from_offset"], loss["to_offset"], loss["lost"]) == (7, 15, 8)
    assert (loss["input"], loss["reason"]) == (0, "the disk was full")
    consume(settings, group(topic), role, until_caught_up=True)  # accepted once and for all


def test_records_that_kafka_deletes_while_the_group_runs_are_an_error_too(settings: Settings, topic: str):
    consume(settings, group(topic), Role(), until_caught_up=True)
    send(settings, topic, 20)

    def lose_the_rest(_: PolledBatch) -> None:
        delete_up_to(settings, topic, 40)
        raise RetryBatchError("again")

    with pytest.raises(LakehouseError, match=r"offsets 20 to 39 \(20\)"):
        consume(settings, group(topic), Role(lose_the_rest), until_caught_up=True)


def test_a_log_that_ends_before_what_the_group_has_read_is_an_error(settings: Settings, topic: str):
    with closing(KafkaConsumer(**python_options(settings), group_id=topic)) as reader:
        reader.assign([TopicPartition(topic, 0)])
        reader.commit({TopicPartition(topic, 0): OffsetAndMetadata(50, "", -1)})
    with pytest.raises(
        LakehouseError, match="up to offset 50, but it ends at 20: this is a different log from the one it read"
    ):
        consume(settings, group(topic), Role(), until_caught_up=True)


def test_ends_of_transactions_are_no_records_to_wait_for(settings: Settings, topic: str):
    send(settings, topic, 1, transactional_id=topic)
    roles = Role(), Role()
    with ThreadPoolExecutor() as pool:
        both = [pool.submit(consume, settings, group(topic), role, until_caught_up=True) for role in roles]
        assert sum(one.result(timeout=300).lag for one in both) == 0
    assert sorted(roles[0].done + roles[1].done) == sorted([*EVERY, (0, 20), (1, 20)])


def test_a_log_that_does_not_answer_is_an_error_with_a_hint(fresh_home: Settings):
    with pytest.raises(LakehouseError, match="lakehouse broker start"):
        consume(fresh_home, group("clicks_raw"), Role())
