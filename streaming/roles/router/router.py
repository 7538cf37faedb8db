"""Filter/router: clicks_raw -> clicks, dead_letter, exactly once, by a group of plain Kafka consumers."""

import gc
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from threading import Event

from kafka import KafkaConsumer, TopicPartition

from config.kafka import end_offsets, ensure_topics, python_options
from config.settings import Settings
from streaming.kafka.consumer import Group, PolledBatch, Progress, Record, RetryBatchError, consume
from streaming.kafka.dead_letter import dead_letter
from streaming.kafka.transactions import Message, Transactions, process_id
from streaming.roles.router.contract import contract
from streaming.roles.router.page_rate import PageRate
from streaming.roles.router.routing import route

SOURCE, CLEAN, DEAD = "clicks_raw", "clicks", "dead_letter"
NAME = "route"
_REREAD_SECONDS = 10


@dataclass
class Counts:
    """The records that this process has committed, by outcome."""

    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    """Records not kept, by reason, including dead letters."""
    dead: int = 0


@dataclass
class _PartitionState:
    page_rate: PageRate
    next_offset: int
    """The next offset it expects; if the partition continues elsewhere, the state has to be rebuilt."""


class Router:
    """Route batches; each batch is one transaction."""

    def __init__(self, settings: Settings, transactions: Transactions, same_partitions: bool) -> None:
        self._settings, self._transactions, self._same_partitions = settings, transactions, same_partitions
        self._max_bytes = settings.kafka.max_record_bytes - 1024
        self._states: dict[TopicPartition, _PartitionState] = {}
        self.counts = Counts()

    def handle(self, batch: PolledBatch) -> None:
        """Route a batch; if this raises, nothing of the batch is committed."""
        for partition, records in batch.records.items():
            state, offset = self._states.get(partition), records[0].offset
            if state is None or state.next_offset != offset:
                self._states[partition] = _PartitionState(self._rebuilt_page_rate(partition, offset), offset)
        counts = Counts()
        # Decide before the transaction begins, so that it is open only while records are written.
        messages = [
            message
            for partition, records in batch.records.items()
            for message in self._messages(partition, records, counts)
        ]
        self._transactions.write(messages, batch.offsets, batch.member)
        self.counts.kept += counts.kept
        self.counts.dead += counts.dead
        self.counts.dropped += counts.dropped

    def _messages(self, source: TopicPartition, records: list[Record], counts: Counts) -> Iterator[Message]:
        state, declared = self._states[source], contract()
        partition = source.partition if self._same_partitions else None
        for record in records:
            outcome, reason, user, value = route(declared, state.page_rate, record.offset, record.value)
            key = user.encode()
            headers = self._headers(record) if record.headers else []
            if outcome == "kept" and _size(key, value, headers) > self._max_bytes:
                outcome, reason = "dead", "too large after redaction"
            if outcome == "kept":
                counts.kept += 1
                # The partition stays, also if the edge used another key: arrivals keep their order within it.
                yield Message(CLEAN, partition, key, value, headers, record.timestamp)
                continue
            counts.dropped[reason] += 1
            if outcome == "dead":
                counts.dead += 1
                yield Message(DEAD, None, None, dead_letter(record, reason), [], record.timestamp)
        state.next_offset = records[-1].offset + 1

    def _headers(self, record: Record) -> list[tuple[str, bytes]]:
        declared = self._settings.router.headers
        return [
            (name, value)
            for name, value in record.headers
            if value and name in declared and re.fullmatch(declared[name].encode(), value)
        ]

    def _rebuilt_page_rate(self, partition: TopicPartition, offset: int) -> PageRate:
        """Reread the records before an offset on which the page rate depends."""
        rules = self._settings.router
        page_rate = PageRate(rules.bot_pages, int(rules.bot_seconds * 1000), rules.bot_reach)
        options = {**python_options(self._settings), "isolation_level": "read_committed", "metrics_enabled": False}
        with closing(KafkaConsumer(**options)) as reader:
            reader.assign([partition])
            reader.seek(partition, max(offset - rules.bot_reach, reader.beginning_offsets([partition])[partition]))
            for record in _records_before(reader, partition, offset):
                route(contract(), page_rate, record.offset, record.value)
        return page_rate


def _size(key: bytes, value: bytes, headers: list[tuple[str, bytes]]) -> int:
    return len(key) + len(value) + sum(len(name) + len(content) for name, content in headers)


def _records_before(reader: KafkaConsumer, partition: TopicPartition, end: int) -> Iterator[Record]:
    while (position := reader.position(partition)) < end:
        polled = reader.poll(timeout_ms=_REREAD_SECONDS * 1000, max_records=5_000)
        yield from (record for record in polled.get(partition, ()) if record.offset < end)
        if reader.position(partition) == position:
            raise RetryBatchError(f"{partition.topic} could not be reread from offset {position}")


def group(settings: Settings) -> Group:
    """Return the consumer group of the router."""
    return Group(
        NAME, (SOURCE,), settings.router.records_per_transaction, settings.router.session_seconds, command="route"
    )


def run(
    settings: Settings,
    *,
    until_caught_up: bool = False,
    accept_loss: str | None = None,
    watch: Callable[[Progress, Counts], None] = lambda *_: None,
    stop: Event | None = None,
) -> tuple[Progress, Counts]:
    """Route as one process of the group until `stop` is set, or until the group has reached the current end offsets."""
    ensure_topics(settings)
    gc.freeze()  # exclude imported objects from garbage collection: 10 % more records per second
    partitions = Counter(topic for topic, _ in end_offsets(settings, [SOURCE, CLEAN]))
    with (
        process_id(settings, NAME) as id_,
        closing(Transactions(settings, NAME, id_, settings.router.transaction_seconds)) as transactions,
    ):
        router = Router(settings, transactions, partitions[SOURCE] == partitions[CLEAN])
        progress = consume(
            settings,
            group(settings),
            router.handle,
            until_caught_up=until_caught_up,
            accept_loss=accept_loss,
            watch=lambda progress: watch(progress, router.counts),
            stop=stop,
        )
        return progress, router.counts
