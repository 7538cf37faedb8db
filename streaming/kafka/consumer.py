"""The one loop of the plain consumers: a group reads topics and hands batches to a role, which makes each durable.

A role gives `consume` a function that does one `Batch`. When it returns, its work and the batch's offsets are durable:
in one transaction of its own (`batch.offsets`, `batch.member`), or by `batch.commit()` after the work. When it raises
`Again`, nothing of the batch counts: the loop goes back to what the group has committed and hands that over again.

A batch is done before the next poll, and partitions change hands only within a poll: none goes while half done. A
member that the group has given up is refused when it commits, and whoever has its partitions now does the batch.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import ConsumerGroupMetadata

from config.errors import LakehouseError
from config.kafka import python_options, reachable
from config.settings import Settings
from config.signals import stop_on_signal

Record = Any  # a ConsumerRecord of kafka-python: topic, partition, offset, timestamp, key, value, headers

_POLL_MS, _NETWORK_MS = 200, 5_000
_LOOK_SECONDS, _PAUSE_SECONDS = 1.0, 0.2
_PATIENCE_SECONDS = 60.0  # a broker that restarts is back sooner; what takes longer needs somebody to look


class Again(Exception):
    """Nothing of this batch counts: hand over again what the group has not committed."""


@dataclass(frozen=True)
class Group:
    """Who reads what: the processes of one group share the partitions of its topics."""

    name: str
    topics: tuple[str, ...]
    records_per_batch: int = 500
    session_seconds: float = 10.0
    """A process that was killed gives its partitions to the others after so long."""
    instance: str | None = None
    """Where one process at a time does it all: a new one under this name has the partitions of the old one at once."""


@dataclass(frozen=True)
class Batch:
    """Records of one poll, in the order of each partition, and the offsets that the group has after them."""

    records: Mapping[TopicPartition, list[Record]]
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    member: ConsumerGroupMetadata
    """Who read them: with it the broker refuses offsets of a process that no longer has the partitions."""
    stop: Event
    """Set when the process is to end: whatever waits in a role waits on this."""
    _consumer: KafkaConsumer = field(repr=False)

    def commit(self) -> None:
        """Commit the offsets of the batch."""
        try:
            self._consumer.commit(dict(self.offsets))
        except KafkaError as error:
            raise Again(f"the offsets were not committed: {error}") from error

    def keep_place(self) -> None:
        """Keep the partitions while the work takes long: to be called now and then; `Again` says that they are gone."""
        places = self._consumer.assignment()
        self._consumer.pause(*places)
        found = self._consumer.poll(timeout_ms=0)
        now = self._consumer.group_metadata()
        self._consumer.resume(*(places & self._consumer.assignment()))
        if found or (now.generation_id, now.member_id) != (self.member.generation_id, self.member.member_id):
            raise Again("the partitions were shared out anew")


@dataclass(frozen=True)
class Progress:
    """How far one process of a group is."""

    records: int = 0
    seconds: float = 0.0
    rate: float = 0.0
    """Records per second since the last look."""
    lag: int = 0
    """Records of its own partitions that it has not done yet."""
    partitions: int = 0
    again: int = 0
    """Batches that had to be done again."""
    expired: int = 0
    """Records that the topic's retention had deleted before the group read them."""


Handle = Callable[[Batch], None]
Watch = Callable[[Progress], None]


def consume(
    settings: Settings,
    group: Group,
    handle: Handle,
    *,
    until_caught_up: bool = False,
    watch: Watch = lambda _: None,
    stop: Event | None = None,
) -> Progress:
    """Read as a member of the group until told to stop, or until the group has read what is there now."""
    with reachable(settings), closing(_consumer(settings, group)) as consumer, stop_on_signal(stop) as stopped:
        return _Loop(consumer, group, handle, until_caught_up, watch, stopped).run()


def _consumer(settings: Settings, group: Group) -> KafkaConsumer:
    return KafkaConsumer(
        *group.topics,
        **python_options(settings),
        group_id=group.name,
        group_instance_id=group.instance,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        # Also makes a new owner wait for the offsets of a transaction that its former owner is just ending.
        isolation_level="read_committed",
        max_poll_records=group.records_per_batch,
        max_partition_fetch_bytes=4 * 2**20,
        session_timeout_ms=int(group.session_seconds * 1000),
        heartbeat_interval_ms=int(group.session_seconds * 1000 / 4),
        metrics_enabled=False,
    )


class _Loop:
    def __init__(
        self, consumer: KafkaConsumer, group: Group, handle: Handle, until_caught_up: bool, watch: Watch, stop: Event
    ) -> None:
        self._consumer, self._group, self._handle = consumer, group, handle
        self._watch, self._stop = watch, stop
        # Asked for in any case: one that joins before it knows the partitions gets none, for minutes.
        places = [TopicPartition(name, part) for name in group.topics for part in consumer.partitions_for_topic(name)]
        self._ends: dict[TopicPartition, int] | None = consumer.end_offsets(places) if until_caught_up else None
        self._assigned: set[TopicPartition] = set()
        self._committed: dict[TopicPartition, int] = {}
        self._go_back = self._batch_failed = False
        self._failing_since: float | None = None
        self._begin = self._last_look = time.monotonic()
        self._records = self._seen = self._lag = self._again = self._expired = 0

    def run(self) -> Progress:
        while not self._stop.is_set():
            try:
                if self._step():
                    break
            except (Again, KafkaError) as reason:
                self._failed(reason)
        with suppress(KafkaError):  # a log that is gone by now is no reason to hide what was done
            self._ask_lag()
        return self._progress()

    def _step(self) -> bool:
        """Do the next batch, if there is one; say whether the group has caught up."""
        if self._go_back:
            self._return_to_committed()
        self._go_back = True  # until the batch is done: whatever stops it, its records come again
        records = self._consumer.poll(timeout_ms=_POLL_MS)
        self._notice_rebalance()
        if records:
            self._do(records)
        self._go_back = False
        if time.monotonic() - self._last_look >= _LOOK_SECONDS:
            self._ask_lag()
            if not self._batch_failed:
                self._failing_since = None
            self._watch(self._progress())
        return not records and self._caught_up()

    def _do(self, records: dict[TopicPartition, list[Record]]) -> None:
        offsets = {place: OffsetAndMetadata(some[-1].offset + 1, "", -1) for place, some in records.items()}
        member = self._consumer.group_metadata()
        try:
            if member.generation_id < 0:  # without one, the broker would take the offsets from anybody
                raise Again("the group has given this process up")
            self._handle(Batch(records, offsets, member, self._stop, self._consumer))
        except (Again, KafkaError):
            self._again, self._batch_failed = self._again + 1, True
            raise
        self._committed.update((place, reached.offset) for place, reached in offsets.items())
        self._records += sum(map(len, records.values()))
        self._failing_since, self._batch_failed = None, False

    def _failed(self, reason: Exception) -> None:
        """Wait a little before the next try; what goes on failing ends in an error."""
        self._failing_since = self._failing_since or time.monotonic()
        if time.monotonic() - self._failing_since > _PATIENCE_SECONDS:
            raise LakehouseError(
                f"'{self._group.name}' has not got on for {_PATIENCE_SECONDS:.0f} s: {reason}",
                "lakehouse broker status; then run the same command again: it goes on where it was.",
            ) from reason
        self._stop.wait(_PAUSE_SECONDS)

    def _return_to_committed(self) -> None:
        for place in self._consumer.assignment():
            committed = self._consumer.committed(place, timeout_ms=_NETWORK_MS)
            if committed is None:
                self._consumer.seek_to_beginning(place)
            else:
                self._consumer.seek(place, committed)

    def _notice_rebalance(self) -> None:
        """Count what retention took before it was read: the consumer itself would pass over it without a word."""
        assigned = self._consumer.assignment()
        new = list(assigned - self._assigned)
        firsts = self._consumer.beginning_offsets(new, timeout_ms=_NETWORK_MS) if new else {}
        committed = {place: self._consumer.committed(place, timeout_ms=_NETWORK_MS) for place in new}
        self._expired += sum(
            max(0, firsts[place] - offset) for place, offset in committed.items() if offset is not None
        )
        self._batch_failed &= assigned == self._assigned  # else what failed may be another one's now
        self._assigned = assigned

    def _caught_up(self) -> bool:
        """Say whether the whole group has read what there was: the partitions of a member that died will be ours."""
        return self._ends is not None and all(self._reached(place) >= end for place, end in self._ends.items())

    def _reached(self, place: TopicPartition) -> int:
        if place not in self._assigned:
            return self._consumer.committed(place, timeout_ms=_NETWORK_MS) or 0
        position = self._position(place)
        if position > self._committed.get(place, position):
            # Nothing but ends of transactions was there; the others of the group shall know that it is read.
            self._consumer.commit({place: OffsetAndMetadata(position, "", -1)})
            self._committed[place] = position
        return position

    def _position(self, place: TopicPartition) -> int:
        return self._consumer.position(place, timeout_ms=_NETWORK_MS) or 0

    def _ask_lag(self) -> None:
        places = self._consumer.assignment()
        ends = self._consumer.end_offsets(places, timeout_ms=_NETWORK_MS) if places else {}
        self._lag = sum(max(0, end - self._position(place)) for place, end in ends.items())

    def _progress(self) -> Progress:
        now = time.monotonic()
        rate, mine = (self._records - self._seen) / max(now - self._last_look, 1e-9), len(self._assigned)
        self._last_look, self._seen = now, self._records
        return Progress(self._records, now - self._begin, rate, self._lag, mine, self._again, self._expired)
