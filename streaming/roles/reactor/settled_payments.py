"""Which failed payments have an outcome already: learnt from payment_retries itself, so that it cannot be wrong."""

from collections.abc import Iterable
from contextlib import closing

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaTimeoutError

from config.kafka import python_options
from config.settings import Settings
from streaming.roles.reactor.outcomes import DIGEST, RETRY_OF, TOPIC
from streaming.roles.reactor.payments import FailedPayment

READ_SECONDS = 10


class Memory:
    """The digest of each payment with an outcome, by event id; the oldest are forgotten first.

    What is forgotten is called again and told again: still one effect, by its key, and an outcome of the same id.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._digests: dict[str, str] = {}

    def digest_of(self, event_id: str) -> str | None:
        """Give the digest of the payment that has an outcome under this id."""
        return self._digests.get(event_id)

    def keep(self, payments: Iterable[FailedPayment]) -> None:
        """Remember payments whose outcome is in payment_retries."""
        for payment in payments:
            self._keep(payment.event_id, payment.digest)

    def learn(self, settings: Settings) -> None:
        """Read the latest outcomes; whatever another reactor had begun must have been ended before."""
        options = python_options(settings) | {"isolation_level": "read_committed", "metrics_enabled": False}
        with closing(KafkaConsumer(**options)) as consumer:
            places = [TopicPartition(TOPIC, number) for number in consumer.partitions_for_topic(TOPIC) or ()]
            begins, ends = consumer.beginning_offsets(places), consumer.end_offsets(places)
            consumer.assign(places)
            for place in places:
                consumer.seek(place, max(begins[place], ends[place] - self._most))
            while any(consumer.position(place) < ends[place] for place in places):
                before = [consumer.position(place) for place in places]
                for records in consumer.poll(timeout_ms=READ_SECONDS * 1000, max_records=5000).values():
                    for headers in (dict(record.headers) for record in records):
                        if RETRY_OF in headers and DIGEST in headers:  # if not, no reactor wrote it
                            self._keep(headers[RETRY_OF].decode(), headers[DIGEST].decode())
                if before == [consumer.position(place) for place in places]:
                    raise KafkaTimeoutError(f"{TOPIC} could not be read within {READ_SECONDS} s")

    def _keep(self, event_id: str, digest: str) -> None:
        self._digests[event_id] = digest
        if len(self._digests) > self._most:
            del self._digests[next(iter(self._digests))]
