"""Filter/router: a record of clicks_raw -> a redacted click, a dead letter, or dropped with a reason.

A record that cannot be parsed or lacks a required field becomes a dead letter. Bots are dropped: those that identify
themselves, and those that view pages too fast, starting with the page view that exceeds the rate; earlier page views
have passed. Other records are kept without personal data: only fields that `clicks` declares.

Types, ranges and unknown event types are not checked here. Landing checks them, lists every broken rule in quarantine
and can redrive the records.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any, Literal, NamedTuple

from config.declarations import topics
from streaming.roles.router.page_rate import PageRate
from streaming.roles.router.redaction import browser, network

Document = dict[str, Any]


class Decision(NamedTuple):
    """The outcome of one record; `value` is the value to write, empty if nothing is written."""

    outcome: Literal["kept", "dropped", "dead"]
    reason: str
    value: bytes


class Contract(NamedTuple):
    """The fields that a raw click must have and those that it may keep, as the two topics declare them."""

    required: tuple[str, ...]
    by_type: Mapping[str, tuple[str, ...]]
    """Fields required only for one event type."""
    kept: frozenset[str]


class Unreadable(Exception):
    """The record is not a JSON object."""


def route(contract: Contract, page_rate: PageRate, offset: int, value: bytes | None) -> Decision:
    """Decide on one record, whatever its bytes are."""
    try:
        document = _read(value)
    except Unreadable as why:
        return Decision("dead", f"unreadable: {why}", value or b"")
    try:
        return _decide(contract, page_rate, offset, document)
    except (ValueError, RecursionError):  # parsed, but not serializable: a number like 1e999, or nested too deeply
        return Decision("dead", "unreadable: cannot be written as JSON", value or b"")


@cache
def contract() -> Contract:
    """Build the contract from the declarations of `clicks_raw` and `clicks`."""
    raw, clean = topics()["clicks_raw"].events, topics()["clicks"].events
    by_type: dict[str, tuple[str, ...]] = {}
    for clause in raw.get("allOf", ()):
        condition = clause["if"]["properties"]["type"]
        for kind in condition.get("enum", [condition.get("const")]):
            by_type[kind] = (*by_type.get(kind, ()), *clause["then"]["required"])
    return Contract(tuple(raw["required"]), by_type, frozenset(raw["properties"]) & frozenset(clean["properties"]))


def _decide(contract: Contract, page_rate: PageRate, offset: int, document: Document) -> Decision:
    missing = _missing(contract, document)
    agent = browser(document.get("user_agent"))
    if missing:
        return Decision("dead", f"missing: {missing}", _redacted(contract, document, agent))
    if agent is None:
        return Decision("dropped", "bot: agent", b"")
    user, at_ms = document["user_id"], _milliseconds(document["event_time"])
    if at_ms is not None and isinstance(user, str):
        if document["type"] == "page_view":
            page_rate.add(offset, user, at_ms)
        if page_rate.too_fast(offset, user, at_ms):
            return Decision("dropped", "bot: rate", b"")
    return Decision("kept", "", _redacted(contract, document, agent))


def _missing(contract: Contract, document: Document) -> str | None:
    for name in contract.required:
        if document.get(name) is None:
            return name
    kind = document["type"]
    for name in contract.by_type.get(kind, ()) if isinstance(kind, str) else ():
        if document.get(name) is None:
            return name
    return None


def _redacted(contract: Contract, document: Document, agent: str | None) -> bytes:
    kept = {name: document[name] for name in document if name in contract.kept and name != "ip"}
    if address := network(document.get("ip")):
        kept["ip"] = address
    if agent:
        kept["agent"] = agent
    return _WRITER.encode(kept).encode()


def _read(value: bytes | None) -> Document:
    if value is None:
        raise Unreadable("no value")
    if not value:
        raise Unreadable("empty")
    try:
        document = _READER.decode(value.decode())
    except UnicodeDecodeError:
        raise Unreadable("not UTF-8") from None
    except (ValueError, RecursionError):  # not JSON, thousands of digits, or nested too deeply
        raise Unreadable("not JSON") from None
    if not isinstance(document, dict):
        raise Unreadable("not an object")
    return document


def _milliseconds(event_time: object) -> int | None:
    try:
        moment = datetime.fromisoformat(event_time)  # type: ignore[arg-type]
        return int(moment.timestamp() * 1000)
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


_READER = json.JSONDecoder(parse_constant=_refuse)
# ASCII only: a lone surrogate can then be written.
_WRITER = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False)
