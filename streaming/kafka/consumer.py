"""The poll loop of the plain Kafka consumers: it polls records as a group member and hands each batch to a role.

A role passes `consume` a function that handles one `PolledBatch`. When the function returns, its work and the batch's
offsets are committed: in one transaction (`batch.offsets`, `batch.member`), or by `batch.commit()` after the work. When
it raises `RetryBatchError`, nothing was committed: the loop seeks to the group's committed offsets and polls again.

A batch is finished before the next poll, and a rebalance happens only inside a poll, so no partition is revoked in the
middle of a batch. The broker rejects the commit of a member that the group has expelled; the new owner of its
partitions then handles the batch.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Event
from typing import Any

from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError, NoOffsetForPartitionError, OffsetOutOfRangeError
from kafka.structs import ConsumerGroupMetadata

from config.errors import LakehouseError
from config.kafka import python_options, reachable
from config.settings import Settings
from config.signals import stop_on_signal
from config.waiting import answers
from streaming.kafka.positions import NETWORK_MS, seek_to_committed

Record = Any  # a ConsumerRecord of kafka-python: topic, partition, offset, timestamp, key, value, headers

_POLL_MS = 200
_REPORT_SECONDS, _RETRY_SECONDS = 1.0, 0.2
_GIVE_UP_SECONDS = 60.0  # a restarting broker is back sooner; a longer failure needs an operator


class RetryBatchError(Exception):
    """Nothing of this batch was committed: poll again from the committed offsets."""


@dataclass(frozen=True)
class Group:
    """A consumer group and its topics; the processes of a group share the partitions."""

    name: str
    topics: tuple[str, ...]
    records_per_batch: int = 500
    session_seconds: float = 10.0
    """The session timeout: after it, the partitions of a killed process go to the other members."""
    instance: str | None = None
    """Static membership for a group of one: a restarted process gets its partitions back at once."""
    command: str = ""
    """The command that runs it; an error names it as the way to go on after a loss."""


@dataclass(frozen=True)
class PolledBatch:
    """The records of one poll, in offset order per partition, and the offsets to commit after them."""

    records: Mapping[TopicPartition, list[Record]]
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    member: ConsumerGroupMetadata
    """The member that polled them; the broker rejects its offsets once it has lost the partitions."""
    stop: Event
    """Set when the process shall end; code of a role that waits must wait on this event."""
    _consumer: KafkaConsumer = field(repr=False)

    def commit(self) -> None:
        """Commit the offsets of the batch."""
        try:
            self._consumer.commit(dict(self.offsets))
        except KafkaError as error:
            raise RetryBatchError(f"the offsets were not committed: {error}") from error

    def keep_alive(self) -> None:
        """Stay in the group during long work; call it regularly. Raises `RetryBatchError` after a rebalance."""
        assigned = self._consumer.assignment()
        self._consumer.pause(*assigned)
        try:
            polled = self._consumer.poll(timeout_ms=0)
        except NoOffsetForPartitionError:  # of a partition that a rebalance has just assigned
            polled = {}
        now = self._consumer.group_metadata()
        self._consumer.resume(*(assigned & self._consumer.assignment()))
        if polled or (now.generation_id, now.member_id) != (self.member.generation_id, self.member.member_id):
            raise RetryBatchError("the group was rebalanced")


@dataclass(frozen=True)
class Progress:
    """The progress of one process of a group."""

    records: int = 0
    seconds: float = 0.0
    rate: float = 0.0
    """Records per second since the last report."""
    lag: int = 0
    """Records of its assigned partitions that it has not handled yet."""
    partitions: int = 0
    retried: int = 0
    """Batches that had to be retried."""
    waiting_since: datetime | None = None
    """Since when it waits for Kafka, which does not answer."""


HandleBatch = Callable[[PolledBatch], None]
OnProgress = Callable[[Progress], None]


def consume(
    settings: Settings,
    group: Group,
    handle: HandleBatch,
    *,
    until_caught_up: bool = False,
    accept_loss: str | None = None,
    watch: OnProgress = lambda _: None,
    stop: Event | None = None,
) -> Progress:
    """Consume as a member of the group until `stop` is set, or until the group has reached the current end offsets.

    accept_loss: why to go on after records that Kafka deleted before the group had read them; they are recorded in the
    ledger as lost. Without a reason they are an error.
    """
    with reachable(settings), closing(_consumer(settings, group)) as consumer, stop_on_signal(stop) as stopped:
        return _Loop(settings, consumer, group, handle, until_caught_up, accept_loss, watch, stopped).run()


def _consumer(settings: Settings, group: Group) -> KafkaConsumer:
    return KafkaConsumer(
        *group.topics,
        **python_options(settings),
        group_id=group.name,
        group_instance_id=group.instance,
        enable_auto_commit=False,
        auto_offset_reset="none",  # an offset that Kafka no longer has is an error, never skipped
        # Also makes a new owner of a partition wait for offsets in a pending transaction of the previous owner.
        isolation_level="read_committed",
        max_poll_records=group.records_per_batch,
        max_partition_fetch_bytes=4 * 2**20,
        session_timeout_ms=int(group.session_seconds * 1000),
        heartbeat_interval_ms=int(group.session_seconds * 1000 / 4),
        metrics_enabled=False,
    )


class _Loop:
    def __init__(
        self,
        settings: Settings,
        consumer: KafkaConsumer,
        group: Group,
        handle: HandleBatch,
        until_caught_up: bool,
        accept_loss: str | None,
        watch: OnProgress,
        stop: Event,
    ) -> None:
        self._settings, self._consumer, self._group, self._handle = settings, consumer, group, handle
        self._accept_loss, self._watch, self._stop = accept_loss, watch, stop
        # Always fetch the metadata: a member that joins without it is assigned no partitions for minutes.
        partitions = [TopicPartition(name, n) for name in group.topics for n in consumer.partitions_for_topic(name)]
        self._ends: dict[TopicPartition, int] | None = consumer.end_offsets(partitions) if until_caught_up else None
        self._assigned: set[TopicPartition] = set()
        self._committed: dict[TopicPartition, int] = {}
        self._seek_needed = self._batch_failed = False
        self._failing_since: float | None = None
        self._waiting_since: datetime | None = None
        self._started = self._reported = time.monotonic()
        self._records = self._reported_records = self._lag = self._retried = 0

    def run(self) -> Progress:
        while not self._stop.is_set():
            try:
                if self._step():
                    break
            except (OffsetOutOfRangeError, NoOffsetForPartitionError):
                self._seek_needed = True
            except (RetryBatchError, KafkaError) as reason:
                self._failed(reason)
        with suppress(KafkaError):  # an unreachable broker must not hide the progress made
            self._update_lag()
        return self._progress()

    def _step(self) -> bool:
        """Poll and handle one batch; return whether the group has caught up."""
        if self._seek_needed:
            seek_to_committed(self._consumer, self._group, self._settings, self._accept_loss)
        self._seek_needed = True  # until the batch is done: after any error its records are polled again
        records = self._consumer.poll(timeout_ms=_POLL_MS)
        self._check_assignment()
        if records:
            self._handle_batch(records)
        self._seek_needed = False
        if time.monotonic() - self._reported >= _REPORT_SECONDS:
            self._update_lag()
            self._waiting_since = None
            if not self._batch_failed:
                self._failing_since = None
            self._watch(self._progress())
        return not records and self._caught_up()

    def _handle_batch(self, records: dict[TopicPartition, list[Record]]) -> None:
        offsets = {partition: OffsetAndMetadata(some[-1].offset + 1, "", -1) for partition, some in records.items()}
        member = self._consumer.group_metadata()
        try:
            if member.generation_id < 0:  # without a generation the broker would accept offsets from any process
                raise RetryBatchError("this process is no longer a member of the group")
            self._handle(PolledBatch(records, offsets, member, self._stop, self._consumer))
        except (RetryBatchError, KafkaError):
            self._retried, self._batch_failed = self._retried + 1, True
            raise
        self._committed.update((partition, end.offset) for partition, end in offsets.items())
        self._records += sum(map(len, records.values()))
        self._failing_since, self._batch_failed = None, False

    def _failed(self, reason: Exception) -> None:
        """Wait before the next attempt; raise an error after a minute of failures.

        While Kafka is away, a live consumer waits for it, however long that takes.
        """
        if self._ends is None and not answers(self._settings, self._group.topics):
            self._waiting_since = self._waiting_since or datetime.now(UTC)
            self._failing_since = None
            self._watch(self._progress())
            self._stop.wait(_RETRY_SECONDS)
            return
        self._failing_since = self._failing_since or time.monotonic()
        if time.monotonic() - self._failing_since > _GIVE_UP_SECONDS:
            raise LakehouseError(
                f"'{self._group.name}' has made no progress for {_GIVE_UP_SECONDS:.0f} s: {reason}",
                "lakehouse broker status; then run the same command again: it continues from the committed offsets.",
            ) from reason
        self._stop.wait(_RETRY_SECONDS)

    def _check_assignment(self) -> None:
        assigned = self._consumer.assignment()
        # After a rebalance the failed batch may belong to another member.
        self._batch_failed &= assigned == self._assigned
        self._assigned = assigned

    def _caught_up(self) -> bool:
        """Return whether the whole group has caught up: this member may inherit the partitions of a dead one."""
        return self._ends is not None and all(self._reached(partition) >= end for partition, end in self._ends.items())

    def _reached(self, partition: TopicPartition) -> int:
        if partition not in self._assigned:
            return self._consumer.committed(partition, timeout_ms=NETWORK_MS) or 0
        position = self._position(partition)
        if position > self._committed.get(partition, position):
            # Only transaction markers were read. Commit past them, so that the other members see the position.
            self._consumer.commit({partition: OffsetAndMetadata(position, "", -1)})
            self._committed[partition] = position
        return position

    def _position(self, partition: TopicPartition) -> int:
        return self._consumer.position(partition, timeout_ms=NETWORK_MS) or 0

    def _update_lag(self) -> None:
        assigned = self._consumer.assignment()
        ends = self._consumer.end_offsets(assigned, timeout_ms=NETWORK_MS) if assigned else {}
        self._lag = sum(max(0, end - self._position(partition)) for partition, end in ends.items())

    def _progress(self) -> Progress:
        now = time.monotonic()
        rate = (self._records - self._reported_records) / max(now - self._reported, 1e-9)
        self._reported, self._reported_records = now, self._records
        return Progress(
            records=self._records,
            seconds=now - self._started,
            rate=rate,
            lag=self._lag,
            partitions=len(self._assigned),
            retried=self._retried,
            waiting_since=self._waiting_since,
        )
