"""Outcome events: a settled payment -> a record of payment_retries."""

import json
from datetime import UTC, datetime
from uuid import UUID, uuid5

from streaming.kafka.transactions import Message
from streaming.roles.reactor.retries import Settled

TOPIC = "payment_retries"
RETRY_OF, DIGEST = "retry_of", "digest"
_NAMESPACE = UUID("6c1b7b0e-52f0-4a7e-9d0b-3a1f9e2c7d54")


def outcome(settled: Settled, now: datetime) -> Message:
    """Build the outcome event of a failed payment; its event id depends only on the payment, so a repeat is a copy."""
    payment = settled.payment
    event = {
        "event_id": uuid5(_NAMESPACE, payment.event_id).hex,
        "type": "payment_retried",
        "event_time": now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "schema_version": 1,
        "order_id": payment.order_id,
        "retry_of": payment.event_id,
        "outcome": settled.outcome,
        "attempts": settled.attempts,
    }
    # The next reactor recognizes copies of the payment by these headers, without parsing values.
    headers = [(RETRY_OF, payment.event_id.encode()), (DIGEST, payment.digest.encode())]
    value = json.dumps(event, separators=(",", ":")).encode()
    return Message(TOPIC, None, payment.order_id.encode(), value, headers, int(now.timestamp() * 1000))
