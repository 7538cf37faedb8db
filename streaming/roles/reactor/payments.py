"""Which records of `payments` are failed payments to be retried, and which cannot be read."""

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from config.declarations import topic_named

SENT = ("payment_id", "order_id", "user_id", "merchant_id", "amount_cents", "method", "country")
LONGEST_ID = 200


class UnreadableError(Exception):
    """A record that may have been a failed payment, and why that cannot be known or used."""


@dataclass(frozen=True)
class FailedPayment:
    """A payment to be retried; its event id is the idempotency key."""

    event_id: str
    order_id: str
    request: dict[str, Any]
    digest: str
    """Tells a copy of the event from another event under the same id."""


def failed_payment(value: bytes | None) -> FailedPayment | None:
    """Read a failed payment from a record's value; another event is none."""
    event = _event(value)
    if not isinstance(event.get("type"), str):
        raise UnreadableError("it has no type")
    if event["type"] != "payment_failed":
        return None
    problem = best_match(_form().iter_errors(event))
    if problem:
        raise UnreadableError(f"{problem.json_path}: {problem.message}"[:LONGEST_ID])
    for name in ("event_id", "order_id"):
        # They become a header and a key: no line breaks, no lone surrogates, no megabytes.
        if not 0 < len(event[name]) <= LONGEST_ID or not event[name].isascii() or not event[name].isprintable():
            raise UnreadableError(f"its {name} cannot be a key")
    request = {name: event[name] for name in SENT if name in event}
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
def _form() -> Draft202012Validator:
    return Draft202012Validator(topic_named("payments").events)
