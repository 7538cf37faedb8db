"""Kafka transactions: write records and commit consumer offsets, both or neither."""

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
from streaming.kafka.consumer import RetryBatchError

_MAX_PROCESSES = 64


class Message(NamedTuple):
    """A Kafka record to write."""

    topic: str
    partition: int | None
    """None: chosen by the key."""
    key: bytes | None
    value: bytes
    headers: list[tuple[str, bytes]]
    timestamp_ms: int


class Transactions:
    """The transactional producer of one process of a group.

    Two mechanisms discard half-done work. The broker rejects the offsets of a member that the group has expelled. And
    the next producer with the same transactional id aborts the open transaction of the previous one, so a killed
    process that restarts blocks no reader; otherwise readers wait until the transaction times out.
    """

    def __init__(self, settings: Settings, role: str, id_: str, seconds: float = 60.0) -> None:
        self._role = role
        self._timeout = seconds + 10  # by then the broker has aborted the transaction
        self._options = {
            **python_options(settings),
            "transactional_id": id_,
            "transaction_timeout_ms": int(seconds * 1000),
            # Every transaction ends with a flush; until then send only full batches.
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
        """Write messages and offsets in one transaction; if it fails, abort it and raise `RetryBatchError`."""
        try:
            self._producer = self._producer or self._new()
            self._producer.begin_transaction()
            send = self._producer.send
            sent = [send(m.topic, m.value, m.key, m.headers, m.partition, m.timestamp_ms) for m in messages]
            self._producer.flush(timeout=self._timeout)
            failpoint(f"{self._role}: records written")
            # Check the futures: the producer commits even if a batch of records has timed out.
            if failed := next((future for future in sent if not future.succeeded()), None):
                raise RetryBatchError(f"a record was not written: {failed.exception}")
            self._with_timeout(self._producer.send_offsets_to_transaction, dict(offsets), member)
            failpoint(f"{self._role}: offsets written")
            self._with_timeout(self._producer.commit_transaction)
            failpoint(f"{self._role}: committed")
        except (KafkaError, RetryBatchError) as error:
            self._abort()
            raise RetryBatchError(str(error)) from error

    def close(self) -> None:
        """Close the producer; uncommitted records are discarded."""
        if self._producer:
            with suppress(KafkaError):
                self._producer.close(timeout=5)

    def _abort(self) -> None:
        if self._producer is None:
            return
        try:
            self._with_timeout(self._producer.abort_transaction)
        except KafkaError:
            # The producer is unusable, as after a timeout; the next one with its id aborts the open transaction.
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

    def _with_timeout(self, call: Callable[..., object], *arguments: object) -> None:
        """Call the producer with a timeout, as it may wait forever; the next producer resolves the transaction."""
        answer: Future[object] = Future()

        def run() -> None:
            try:
                answer.set_result(call(*arguments))
            except Exception as error:
                answer.set_exception(error)

        Thread(target=run, daemon=True).start()
        try:
            answer.result(self._timeout)
        except TimeoutError:
            raise KafkaTimeoutError(f"no answer within {self._timeout:.0f} s") from None


@contextmanager
def process_id(settings: Settings, role: str) -> Iterator[str]:
    """Reserve an id for this process among those of its role in this home; it is released when the process ends."""
    home = hashlib.sha256(f"{socket.gethostname()}:{settings.home}".encode()).hexdigest()[:12]
    with ExitStack() as held:
        for number in range(_MAX_PROCESSES):
            try:
                held.enter_context(single_writer(settings, [f"{role}-{number}"]))
            except LakehouseError:
                continue
            yield f"{role}-{home}-{number}"
            return
        raise LakehouseError(
            f"{_MAX_PROCESSES} processes of '{role}' run in {settings.home} already.", "Stop one of them first."
        )
