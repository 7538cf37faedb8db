"""Settled payments: the failed payments that already have an outcome, read from payment_retries itself."""

from collections.abc import Iterable
from contextlib import closing

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaTimeoutError

from config.kafka import python_options
from config.settings import Settings
from streaming.roles.reactor.outcomes import DIGEST, RETRY_OF, TOPIC
from streaming.roles.reactor.payments import FailedPayment

POLL_SECONDS = 10


class SettledPayments:
    """The digests of the latest payments with an outcome, by event id; the oldest are evicted first.

    A copy of an evicted payment is retried again: still one effect, thanks to the idempotency key, and an outcome with
    the same event id.
    """

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._digests: dict[str, str] = {}

    def digest_of(self, event_id: str) -> str | None:
        """Return the digest of the settled payment with this event id."""
        return self._digests.get(event_id)

    def add(self, payments: Iterable[FailedPayment]) -> None:
        """Add payments whose outcome is in payment_retries."""
        for payment in payments:
            self._add(payment.event_id, payment.digest)

    def load(self, settings: Settings) -> None:
        """Read the latest outcomes; transactions of other reactors must have ended before."""
        options = python_options(settings) | {"isolation_level": "read_committed", "metrics_enabled": False}
        with closing(KafkaConsumer(**options)) as consumer:
            partitions = [TopicPartition(TOPIC, number) for number in consumer.partitions_for_topic(TOPIC) or ()]
            begins, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
            consumer.assign(partitions)
            for partition in partitions:
                consumer.seek(partition, max(begins[partition], ends[partition] - self._max_size))
            while any(consumer.position(partition) < ends[partition] for partition in partitions):
                before = [consumer.position(partition) for partition in partitions]
                for records in consumer.poll(timeout_ms=POLL_SECONDS * 1000, max_records=5000).values():
                    for headers in (dict(record.headers) for record in records):
                        if RETRY_OF in headers and DIGEST in headers:  # if not, no reactor wrote it
                            self._add(headers[RETRY_OF].decode(), headers[DIGEST].decode())
                if before == [consumer.position(partition) for partition in partitions]:
                    raise KafkaTimeoutError(f"{TOPIC} could not be read within {POLL_SECONDS} s")

    def _add(self, event_id: str, digest: str) -> None:
        self._digests[event_id] = digest
        if len(self._digests) > self._max_size:
            del self._digests[next(iter(self._digests))]
