"""Filter/router: clicks_raw -> clicks, dead_letter, exactly once, by a group of plain consumers."""

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from threading import Event

from kafka import KafkaConsumer, TopicPartition

from config.kafka import end_offsets, ensure_topics, python_options
from config.settings import Settings
from streaming.kafka.consumer import Again, Batch, Group, Progress, Record, consume
from streaming.kafka.dead_letter import dead_letter
from streaming.kafka.transactions import Message, Transactions, process_id
from streaming.roles.router.page_rate import Pace
from streaming.roles.router.routing import contract, route

SOURCE, CLEAN, DEAD = "clicks_raw", "clicks", "dead_letter"
NAME = "route"
_REREAD_SECONDS = 10


@dataclass
class Counts:
    """What became of the records that this process has read and committed."""

    kept: int = 0
    left: Counter[str] = field(default_factory=Counter)
    """Those not kept, by reason; dead letters are among them."""
    dead: int = 0


@dataclass
class _Memory:
    pace: Pace
    next: int
    """The offset that it has to see next; with any other, it is not what the partition's records make it."""


class Router:
    """Route one batch after the other; each is read, decided and written in one transaction."""

    def __init__(self, settings: Settings, transactions: Transactions, same_partitions: bool) -> None:
        self._settings, self._transactions, self._same_partitions = settings, transactions, same_partitions
        self._most_bytes = settings.kafka.max_record_bytes - 1024
        self._memories: dict[TopicPartition, _Memory] = {}
        self.counts = Counts()

    def handle(self, batch: Batch) -> None:
        """Route a batch; nothing of it counts if this raises."""
        for place, records in batch.records.items():
            memory = self._memories.get(place)
            if memory is None or memory.next != records[0].offset:
                self._memories[place] = _Memory(self._remembered(place, records[0].offset), records[0].offset)
        counts = Counts()
        # Decided before the transaction begins: it is open no longer than the writing takes.
        messages = [
            message for place, records in batch.records.items() for message in self._messages(place, records, counts)
        ]
        self._transactions.write(messages, batch.offsets, batch.member)
        self.counts.kept += counts.kept
        self.counts.dead += counts.dead
        self.counts.left += counts.left

    def _messages(self, place: TopicPartition, records: list[Record], counts: Counts) -> Iterator[Message]:
        memory = self._memories[place]
        promised, pace = contract(), memory.pace
        partition = place.partition if self._same_partitions else None
        for record in records:
            outcome, reason, value = route(promised, pace, record.offset, record.value)
            headers = self._headers(record) if record.headers else []
            if outcome == "kept" and _size(record.key, value, headers) > self._most_bytes:
                outcome, reason = "dead", "too large when written again"
            if outcome == "kept":
                counts.kept += 1
                yield Message(CLEAN, partition, record.key, value, headers, record.timestamp)
                continue
            counts.left[reason] += 1
            if outcome == "dead":
                counts.dead += 1
                letter = dead_letter(record, reason, value, self._most_bytes)
                yield Message(DEAD, None, None, letter, [], record.timestamp)
        memory.next = records[-1].offset + 1

    def _headers(self, record: Record) -> list[tuple[str, bytes]]:
        return [(name, value) for name, value in record.headers if name in self._settings.router.headers and value]

    def _remembered(self, place: TopicPartition, offset: int) -> Pace:
        """Read again what was before, as far as the pace of users depends on it."""
        rules = self._settings.router
        pace = Pace(rules.bot_pages, int(rules.bot_seconds * 1000), rules.bot_reach)
        options = {**python_options(self._settings), "isolation_level": "read_committed", "metrics_enabled": False}
        with closing(KafkaConsumer(**options)) as reader:
            reader.assign([place])
            reader.seek(place, max(offset - rules.bot_reach, reader.beginning_offsets([place])[place]))
            for record in _up_to(reader, place, offset):
                route(contract(), pace, record.offset, record.value)
        return pace


def _size(key: bytes | None, value: bytes, headers: list[tuple[str, bytes]]) -> int:
    return len(key or b"") + len(value) + sum(len(name) + len(content) for name, content in headers)


def _up_to(reader: KafkaConsumer, place: TopicPartition, end: int) -> Iterator[Record]:
    while (position := reader.position(place)) < end:
        found = reader.poll(timeout_ms=_REREAD_SECONDS * 1000, max_records=5_000)
        yield from (record for record in found.get(place, ()) if record.offset < end)
        if reader.position(place) == position:
            raise Again(f"{place.topic} could not be read again from offset {position}")


def group(settings: Settings) -> Group:
    """Give the group that all processes of the router are in."""
    return Group(NAME, (SOURCE,), settings.router.records_per_transaction, settings.router.session_seconds)


def run(
    settings: Settings,
    *,
    until_caught_up: bool = False,
    watch: Callable[[Progress, Counts], None] = lambda *_: None,
    stop: Event | None = None,
) -> tuple[Progress, Counts]:
    """Route as one process of the group, until told to stop or until all that is there now is routed."""
    ensure_topics(settings)
    gc.freeze()  # what was imported stays: without looking at it again and again, a tenth more records are routed
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
            watch=lambda progress: watch(progress, router.counts),
            stop=stop,
        )
        return progress, router.counts
