"""Filter/router: a record of clicks_raw -> a redacted click, a dead letter, or dropped with a reason.

A record becomes a dead letter if it cannot be parsed, lacks a required field, or has a field to keep that is not of its
declared form: a nested value, free text, an e-mail address in place of an id. Bots are dropped: those that identify
themselves, and those that view pages too fast, starting with the page view that exceeds the rate; earlier page views
have passed. Other records are kept without personal data: only fields that `clicks` declares, in their declared form.

The rules of silver.clicks are not checked here. Landing checks them, lists every broken rule in quarantine and can
redrive the records.
"""

import json
from datetime import datetime
from typing import Any, Literal, NamedTuple

from streaming.roles.router.contract import Contract
from streaming.roles.router.page_rate import PageRate
from streaming.roles.router.redaction import browser, network

Document = dict[str, Any]


class Decision(NamedTuple):
    """The outcome of one record; of a kept one also the user, whose id is the key, and the value to write."""

    outcome: Literal["kept", "dropped", "dead"]
    reason: str = ""
    user: str = ""
    value: bytes = b""


class DeadLetter(Exception):
    """The record cannot be routed; the message says why."""


def route(contract: Contract, page_rate: PageRate, offset: int, value: bytes | None) -> Decision:
    """Decide on one record, whatever its bytes are; no reason quotes them."""
    try:
        document = _read(value)
        kept = _kept(contract, document)
    except DeadLetter as why:
        return Decision("dead", str(why))
    agent = browser(document["user_agent"])
    if agent is None:
        return Decision("dropped", "bot: agent")
    user, at_ms = document["user_id"], _milliseconds(document["event_time"])
    if at_ms is not None:
        if document["type"] == "page_view":
            page_rate.add(offset, user, at_ms)
        if page_rate.too_fast(offset, user, at_ms):
            return Decision("dropped", "bot: rate")
    if address := network(document["ip"]):
        kept["ip"] = address
    kept["agent"] = agent
    return Decision("kept", "", user, _WRITER.encode(kept).encode())


def _missing(contract: Contract, document: Document) -> str | None:
    for name in contract.required:
        if document.get(name) is None:
            return name
    kind = document["type"]
    for name in contract.by_type.get(kind, ()) if isinstance(kind, str) else ():
        if document.get(name) is None:
            return name
    return None


def _kept(contract: Contract, document: Document) -> Document:
    """Return the fields to keep as they are; nothing that is required is missing, and each has its form."""
    if missing := _missing(contract, document):
        raise DeadLetter(f"missing: {missing}")
    kept, forms = {}, contract.kept
    for name, value in document.items():
        if has_form := forms.get(name):
            if value is not None and not has_form(value):
                raise DeadLetter(f"malformed: {name}")
            kept[name] = value
    return kept


def _read(value: bytes | None) -> Document:
    if value is None:
        raise DeadLetter("unreadable: no value")
    if not value:
        raise DeadLetter("unreadable: empty")
    try:
        document = _READER.decode(value.decode())
    except UnicodeDecodeError:
        raise DeadLetter("unreadable: not UTF-8") from None
    except (ValueError, RecursionError):  # not JSON, thousands of digits, or nested too deeply
        raise DeadLetter("unreadable: not JSON") from None
    if not isinstance(document, dict):
        raise DeadLetter("unreadable: not an object")
    return document


def _milliseconds(event_time: str) -> int | None:
    try:
        return int(datetime.fromisoformat(event_time).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


_READER = json.JSONDecoder(parse_constant=_refuse)
_WRITER = json.JSONEncoder(separators=(",", ":"), check_circular=False)
