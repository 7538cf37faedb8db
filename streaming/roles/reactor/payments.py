"""Failed payments: a record of `payments` -> the payment to retry, None for other events, or an error."""

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from config.declarations import topic_named

REQUEST_FIELDS = ("payment_id", "order_id", "user_id", "merchant_id", "amount_cents", "method", "country")
MAX_LENGTH = 200


class UnreadableError(Exception):
    """The record may be a failed payment but cannot be parsed or used; the message says why."""


@dataclass(frozen=True)
class FailedPayment:
    """A payment to retry; its event id is the idempotency key."""

    event_id: str
    order_id: str
    request: dict[str, Any]
    digest: str
    """A hash of the value: distinguishes a copy of the event from another event with the same id."""


def failed_payment(value: bytes | None) -> FailedPayment | None:
    """Parse a failed payment from a record's value; return None for another event."""
    event = _event(value)
    if not isinstance(event.get("type"), str):
        raise UnreadableError("it has no type")
    if event["type"] != "payment_failed":
        return None
    problem = best_match(_validator().iter_errors(event))
    if problem:
        # Most messages quote the value, which does not belong in a dead letter; this one names the missing field.
        what = problem.message if problem.validator == "required" else f"not as declared: {problem.validator}"
        raise UnreadableError(f"{problem.json_path}: {what}")
    for name in ("event_id", "order_id"):
        # They become an HTTP header and a Kafka key: no line breaks, no lone surrogates, no megabytes.
        if not 0 < len(event[name]) <= MAX_LENGTH or not event[name].isascii() or not event[name].isprintable():
            raise UnreadableError(f"its {name} cannot be a key")
    request = {name: event[name] for name in REQUEST_FIELDS if name in event}
    return FailedPayment(event["event_id"], event["order_id"], request, hashlib.sha256(value or b"").hexdigest()[:16])


def _event(value: bytes | None) -> dict[str, Any]:
    if value is None:
        raise UnreadableError("it has no value")
    try:
        event = json.loads(value)
    except (ValueError, RecursionError):
        raise UnreadableError("it is not JSON") from None
    if not isinstance(event, dict):
        raise UnreadableError("it is not a JSON object")
    return event


@cache
def _validator() -> Draft202012Validator:
    return Draft202012Validator(topic_named("payments").events)
