"""Redrive dead letters: the raw clicks that could not be routed -> `clicks`, by the code as it is now, each once.

A dead letter has the origin and the hash of its record; the record is read where it came from, for as long as
`clicks_raw` keeps it. It is decided on as the router would decide there, page rate included. If it is routed now, its
message is written in one transaction with a second dead letter that says so, so no later run sends it again. A record
that still cannot be routed stays as it is.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.structs import ConsumerGroupMetadata

from config.errors import LakehouseError
from config.kafka import begin_offsets, end_offsets, ensure_topics, python_options, reachable
from config.settings import Settings
from streaming.kafka.consumer import Record, RetryBatchError
from streaming.kafka.dead_letter import REDRIVEN, dead_letter
from streaming.kafka.transactions import Message, Transactions
from streaming.roles.router.contract import contract
from streaming.roles.router.page_rate import PageRate
from streaming.roles.router.router import CLEAN, DEAD, SOURCE, ClickWriter, records_before, same_partitions
from streaming.roles.router.routing import Decision, route

# The same for all processes: Kafka lets only the one that began last write.
NAME = "route-dead-letters"
_LAST_RECORDS = 500
"""Offsets at the end of a partition in which its last record is looked for; the others are transaction markers."""


@dataclass
class Redriven:
    """What became of the dead letters."""

    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    """Records that are bots by the present code, by reason."""
    still: Counter[str] = field(default_factory=Counter)
    """Records that still cannot be routed, by reason."""
    gone: list[tuple[int, int]] = field(default_factory=list)
    """Partition and offset of the records that `clicks_raw` no longer has."""


def redrive(settings: Settings) -> Redriven:
    """Route the records of all dead letters again that no run has routed yet."""
    ensure_topics(settings)
    seconds = settings.router.transaction_seconds
    try:
        with reachable(settings), closing(Transactions(settings, NAME, NAME, seconds)) as transactions:
            return _redrive(settings, transactions)
    except RetryBatchError as error:
        raise LakehouseError(
            f"A transaction was not written: {error}",
            "If another process routes dead letters, wait for it. Then run the same command again: it continues.",
        ) from error


def _redrive(settings: Settings, transactions: Transactions) -> Redriven:
    # Read only now: the new producer has ended the open transaction of another one.
    letters, end = _open_letters(settings)
    result, clicks = Redriven(), ClickWriter(settings, same_partitions(settings))
    arrival = _last_arrival(settings)
    with closing(_reader(settings)) as reader:
        raw = _RawClicks(settings, reader)
        # By partition and offset, so that each partition is read once.
        waiting = iter(sorted(letters.items()))
        while some := dict(islice(waiting, settings.router.records_per_transaction)):
            if messages := list(_messages(some, raw, clicks, arrival, result)):
                # The offsets are for people who look at the group; what is open follows from the dead letters alone.
                transactions.write(messages, end, ConsumerGroupMetadata(NAME))
    return result


def _messages(
    letters: dict[tuple[int, int], str], raw: "_RawClicks", clicks: ClickWriter, arrival: int, counts: Redriven
) -> Iterator[Message]:
    found: dict[tuple[int, int], tuple[Record, Decision]] = {}
    for number in sorted({partition for partition, _ in letters}):
        found |= raw.decided(number, sorted(offset for partition, offset in letters if partition == number))
    for origin, sha256 in letters.items():
        if origin not in found or hashlib.sha256(found[origin][0].value or b"").hexdigest() != sha256:
            counts.gone.append(origin)
            continue
        record, (decision, click) = found[origin][0], clicks.click(*found[origin])
        if decision.outcome == "dead":
            counts.still[decision.reason] += 1
            continue
        if click:
            counts.kept += 1
            # It arrives again, after all others: the jobs have closed the windows of its own time (decision 0014).
            yield click._replace(timestamp_ms=max(arrival, record.timestamp))
        else:
            counts.dropped[decision.reason] += 1
        reason = REDRIVEN + (f"to {CLEAN}" if click else f"dropped, {decision.reason}")
        yield Message(DEAD, None, None, dead_letter(record, reason), [], record.timestamp)


def _open_letters(settings: Settings) -> tuple[dict[tuple[int, int], str], dict[TopicPartition, OffsetAndMetadata]]:
    """Return the hash of each record that is still a dead letter, by partition and offset, and where reading ended."""
    found: dict[tuple[int, int], str] = {}
    ends = {}
    with closing(_reader(settings)) as reader:
        for (topic, number), end in end_offsets(settings, [DEAD]).items():
            partition = TopicPartition(topic, number)
            reader.assign([partition])
            reader.seek_to_beginning(partition)
            for record in records_before(reader, partition, end):
                _apply(_parsed(record.value), found)
            ends[partition] = OffsetAndMetadata(end, "", -1)
    return found, ends


def _apply(letter: dict[str, Any], found: dict[tuple[int, int], str]) -> None:
    origin = letter.get("origin")
    if not isinstance(origin, dict) or origin.get("topic") != SOURCE:
        return  # of another role: the router cannot route it
    position = int(origin["partition"]), int(origin["offset"])
    if str(letter.get("reason")).startswith(REDRIVEN):
        found.pop(position, None)
    else:
        found[position] = str(letter.get("sha256"))


def _parsed(value: bytes | None) -> dict[str, Any]:
    try:
        letter = json.loads(value or b"")
    except ValueError:
        return {}
    return letter if isinstance(letter, dict) else {}


class _RawClicks:
    """Reads `clicks_raw` again in the order of its offsets, and decides on its records as the router does."""

    def __init__(self, settings: Settings, reader: KafkaConsumer) -> None:
        self._reader, self._rules = reader, settings.router
        self._first, self._end = begin_offsets(settings, [SOURCE]), end_offsets(settings, [SOURCE])
        self._page_rates: dict[int, tuple[PageRate, int]] = {}
        """By partition, the page views so far, and the next offset."""

    def decided(self, number: int, offsets: list[int]) -> dict[tuple[int, int], tuple[Record, Decision]]:
        """Return the records at ascending offsets of a partition, if still there, each with its decision."""
        first, end = self._first.get((SOURCE, number), 0), self._end.get((SOURCE, number), 0)
        there = [offset for offset in offsets if first <= offset < end]
        partition, wanted, found = TopicPartition(SOURCE, number), set(there), {}
        if there:
            self._reader.assign([partition])
        for low, high in _runs(there, self._rules.bot_reach):
            page_rate, start = self._page_rate(number, low, first)
            self._reader.seek(partition, start)
            for record in records_before(self._reader, partition, high + 1):
                decision = route(contract(), page_rate, record.offset, record.value)
                if record.offset in wanted:
                    found[number, record.offset] = record, decision
            self._page_rates[number] = page_rate, high + 1
        return found

    def _page_rate(self, number: int, offset: int, first: int) -> tuple[PageRate, int]:
        """Return the page views before an offset, and where to go on reading: they depend on the `bot_reach` before."""
        rules = self._rules
        known = self._page_rates.get(number)
        if known and known[1] <= offset <= known[1] + rules.bot_reach:
            return known
        start = max(offset - rules.bot_reach, first)
        return PageRate(rules.bot_pages, int(rules.bot_seconds * 1000), rules.bot_reach), start


def _runs(offsets: list[int], reach: int) -> list[tuple[int, int]]:
    """Join ascending offsets that are at most `reach` apart: by run, the first and the last."""
    runs: list[tuple[int, int]] = []
    for offset in offsets:
        if runs and offset - runs[-1][1] <= reach:
            runs[-1] = runs[-1][0], offset
        else:
            runs.append((offset, offset))
    return runs


def _last_arrival(settings: Settings) -> int:
    """Return the arrival time of the last record of `clicks`, in milliseconds; 0 if there is none."""
    now, last = int(datetime.now(UTC).timestamp() * 1000), 0
    firsts = begin_offsets(settings, [CLEAN])
    with closing(_reader(settings)) as reader:
        for (topic, number), end in end_offsets(settings, [CLEAN]).items():
            partition = TopicPartition(topic, number)
            reader.assign([partition])
            reader.seek(partition, max(firsts[topic, number], end - _LAST_RECORDS))
            # Landing does not believe a timestamp ahead of the clock.
            times = [record.timestamp for record in records_before(reader, partition, end) if record.timestamp <= now]
            last = max([last, *times])
    return last


def _reader(settings: Settings) -> KafkaConsumer:
    # "earliest": where Kafka has just deleted records, go on after them.
    return KafkaConsumer(
        **python_options(settings),
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        metrics_enabled=False,
    )
