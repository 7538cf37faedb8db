"""Transactions: records to write and offsets to commit -> both in the log, or neither."""

import hashlib
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from threading import Thread
from typing import Any, NamedTuple

from kafka import KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError
from kafka.structs import ConsumerGroupMetadata

from config.errors import LakehouseError
from config.failpoints import failpoint
from config.kafka import python_options, reachable
from config.settings import Settings
from lake.locks import single_writer
from streaming.kafka.consumer import Again

_MOST_PROCESSES = 64


class Message(NamedTuple):
    """A record to write."""

    topic: str
    partition: int | None
    """None: as its key says."""
    key: bytes | None
    value: bytes
    headers: list[tuple[str, bytes]]
    timestamp_ms: int


class Transactions:
    """A transactional producer of one process of a group.

    Two things keep what was half done from counting. The broker refuses offsets of a member that the group has given up
    (it is told who the member is). And the next producer of the same id ends what the last one left open, so that a
    killed process that is started again holds nobody up; without it, that takes until the transaction times out.
    """

    def __init__(self, settings: Settings, role: str, id_: str, seconds: float = 60.0) -> None:
        self._role = role
        self._patience = seconds + 10  # by then the broker has given the transaction up
        self._options = {
            **python_options(settings),
            "transactional_id": id_,
            "transaction_timeout_ms": int(seconds * 1000),
            # Every transaction flushes, so that only full batches leave before.
            "linger_ms": 1_000,
            "batch_size": min(512 * 1024, settings.kafka.max_record_bytes),
            "max_request_size": 8 * 2**20,
            "metrics_enabled": False,
        }
        with reachable(settings):
            self._producer: Any = self._new()

    def write(
        self,
        messages: Iterable[Message],
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        member: ConsumerGroupMetadata,
    ) -> None:
        """Write messages and offsets in one transaction; if it fails, end it and raise `Again`."""
        try:
            self._producer = self._producer or self._new()
            self._producer.begin_transaction()
            send = self._producer.send
            sent = [send(m.topic, m.value, m.key, m.headers, m.partition, m.timestamp_ms) for m in messages]
            self._producer.flush(timeout=self._patience)
            failpoint(f"{self._role}: records written")
            # A batch that timed out does not make the producer refuse to commit: the futures are asked.
            if failed := next((future for future in sent if not future.succeeded()), None):
                raise Again(f"a record was not written: {failed.exception}")
            self._in_time(self._producer.send_offsets_to_transaction, dict(offsets), member)
            failpoint(f"{self._role}: offsets written")
            self._in_time(self._producer.commit_transaction)
            failpoint(f"{self._role}: committed")
        except (KafkaError, Again) as error:
            self._abandon()
            raise Again(str(error)) from error

    def close(self) -> None:
        """End the producer; what it has not committed does not count."""
        if self._producer:
            with suppress(KafkaError):
                self._producer.close(timeout=5)

    def _abandon(self) -> None:
        if self._producer is None:
            return
        try:
            self._in_time(self._producer.abort_transaction)
        except KafkaError:
            # It is beyond use, as after a transaction that took too long; the next one of its id ends what it left.
            with suppress(KafkaError):
                self._producer.close(timeout=1)
            self._producer = None

    def _new(self) -> Any:
        producer = KafkaProducer(**self._options)
        try:
            producer.init_transactions()
        except KafkaError:
            with suppress(KafkaError):
                producer.close(timeout=1)
            raise
        return producer

    def _in_time(self, call: Callable[..., object], *arguments: object) -> None:
        """Wait for an answer, but not for ever as the producer does: what came of it, the next one finds out."""
        answer: Future[object] = Future()

        def ask() -> None:
            try:
                answer.set_result(call(*arguments))
            except Exception as error:
                answer.set_exception(error)

        Thread(target=ask, daemon=True).start()
        try:
            answer.result(self._patience)
        except TimeoutError:
            raise KafkaTimeoutError(f"no answer within {self._patience:.0f} s") from None


@contextmanager
def process_id(settings: Settings, role: str) -> Iterator[str]:
    """Give this process an id among those of its role in this home, which is free again when it ends or dies."""
    home = hashlib.sha256(f"{socket.gethostname()}:{settings.home}".encode()).hexdigest()[:12]
    with ExitStack() as held:
        for number in range(_MOST_PROCESSES):
            try:
                held.enter_context(single_writer(settings, [f"{role}-{number}"]))
            except LakehouseError:
                continue
            yield f"{role}-{home}-{number}"
            return
        raise LakehouseError(
            f"{_MOST_PROCESSES} processes of '{role}' run in {settings.home} already.", "Stop one of them first."
        )
