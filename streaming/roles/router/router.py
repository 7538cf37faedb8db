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
from streaming.roles.router.routing import Decision, route

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


class ClickWriter:
    """Turns a record that is kept into the message to write to `clicks`."""

    def __init__(self, settings: Settings, same_partitions: bool) -> None:
        self._headers, self._same_partitions = settings.router.headers, same_partitions
        self._max_bytes = settings.kafka.max_record_bytes - 1024

    def click(self, record: Record, decision: Decision) -> tuple[Decision, Message | None]:
        """Return the decision and the message of a kept record; one that has become too large is a dead letter."""
        if decision.outcome != "kept":
            return decision, None
        key, headers = decision.user.encode(), self._kept_headers(record) if record.headers else []
        if _size(key, decision.value, headers) > self._max_bytes:
            return Decision("dead", "too large after redaction"), None
        # The partition stays, also if the edge used another key: arrivals keep their order within it.
        partition = record.partition if self._same_partitions else None
        return decision, Message(CLEAN, partition, key, decision.value, headers, record.timestamp)

    def _kept_headers(self, record: Record) -> list[tuple[str, bytes]]:
        return [
            (name, value)
            for name, value in record.headers
            if value and name in self._headers and re.fullmatch(self._headers[name].encode(), value)
        ]


class Router:
    """Route batches; each batch is one transaction."""

    def __init__(self, settings: Settings, transactions: Transactions, clicks: ClickWriter) -> None:
        self._settings, self._transactions, self._clicks = settings, transactions, clicks
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
        for record in records:
            decision = route(declared, state.page_rate, record.offset, record.value)
            decision, click = self._clicks.click(record, decision)
            if click:
                counts.kept += 1
                yield click
                continue
            counts.dropped[decision.reason] += 1
            if decision.outcome == "dead":
                counts.dead += 1
                yield Message(DEAD, None, None, dead_letter(record, decision.reason), [], record.timestamp)
        state.next_offset = records[-1].offset + 1

    def _rebuilt_page_rate(self, partition: TopicPartition, offset: int) -> PageRate:
        """Reread the records before an offset on which the page rate depends."""
        rules = self._settings.router
        page_rate = PageRate(rules.bot_pages, int(rules.bot_seconds * 1000), rules.bot_reach)
        options = {**python_options(self._settings), "isolation_level": "read_committed", "metrics_enabled": False}
        with closing(KafkaConsumer(**options)) as reader:
            reader.assign([partition])
            reader.seek(partition, max(offset - rules.bot_reach, reader.beginning_offsets([partition])[partition]))
            for record in records_before(reader, partition, offset):
                route(contract(), page_rate, record.offset, record.value)
        return page_rate


def _size(key: bytes, value: bytes, headers: list[tuple[str, bytes]]) -> int:
    return len(key) + len(value) + sum(len(name) + len(content) for name, content in headers)


def same_partitions(settings: Settings) -> bool:
    """Return whether raw and clean clicks have equally many partitions, so that a record can keep its own."""
    partitions = Counter(topic for topic, _ in end_offsets(settings, [SOURCE, CLEAN]))
    return partitions[SOURCE] == partitions[CLEAN]


def records_before(reader: KafkaConsumer, partition: TopicPartition, end: int) -> Iterator[Record]:
    """Read the records from the reader's position up to an offset."""
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
    with (
        process_id(settings, NAME) as id_,
        closing(Transactions(settings, NAME, id_, settings.router.transaction_seconds)) as transactions,
    ):
        router = Router(settings, transactions, ClickWriter(settings, same_partitions(settings)))
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
