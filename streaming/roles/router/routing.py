"""Filter/router: a record of clicks_raw -> a clean click, a dead letter, or nothing but a reason.

What cannot be read and what lacks a required field is a dead letter. Bots leave: those that say what they are, and
those whose pace says so, from the page on that makes it too fast; the pages before it have passed. The rest is kept,
without personal data: only fields that `clicks` declares, so that it does not pass under another name either.

Whether a value makes sense (its type, its range, a known type of event) is not judged here but at landing, which
quarantines with every rule that was broken and can be asked to try again.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any, Literal, NamedTuple

from config.declarations import topics
from streaming.roles.router.page_rate import Pace
from streaming.roles.router.redaction import browser, network

Document = dict[str, Any]


class Decision(NamedTuple):
    """What becomes of a record; `value` is what is written, if anything is."""

    outcome: Literal["kept", "left", "dead"]
    reason: str
    value: bytes


class Contract(NamedTuple):
    """What the two topics declare: the fields a click must have and those it may keep."""

    required: tuple[str, ...]
    by_type: Mapping[str, tuple[str, ...]]
    """Required of one type of event only."""
    kept: frozenset[str]


class Unreadable(Exception):
    """A record is no JSON object."""


def route(contract: Contract, pace: Pace, offset: int, value: bytes | None) -> Decision:
    """Decide on one record; whatever its bytes are, there is a decision."""
    try:
        document = _read(value)
    except Unreadable as why:
        return Decision("dead", f"unreadable: {why}", value or b"")
    try:
        return _decide(contract, pace, offset, document)
    except (ValueError, RecursionError):  # read, but not to be written: a number like 1e999, or too deep a nesting
        return Decision("dead", "unreadable: not JSON when written again", value or b"")


@cache
def contract() -> Contract:
    """Put together what is declared of the raw and of the clean clicks."""
    raw, clean = topics()["clicks_raw"].events, topics()["clicks"].events
    by_type: dict[str, tuple[str, ...]] = {}
    for clause in raw.get("allOf", ()):
        condition = clause["if"]["properties"]["type"]
        for kind in condition.get("enum", [condition.get("const")]):
            by_type[kind] = (*by_type.get(kind, ()), *clause["then"]["required"])
    return Contract(tuple(raw["required"]), by_type, frozenset(raw["properties"]) & frozenset(clean["properties"]))


def _decide(contract: Contract, pace: Pace, offset: int, document: Document) -> Decision:
    missing = _missing(contract, document)
    agent = browser(document.get("user_agent"))
    if missing:
        return Decision("dead", f"missing: {missing}", _redacted(contract, document, agent))
    if agent is None:
        return Decision("left", "bot: agent", b"")
    user, at_ms = document["user_id"], _milliseconds(document["event_time"])
    if at_ms is not None and isinstance(user, str):
        if document["type"] == "page_view":
            pace.see(offset, user, at_ms)
        if pace.too_fast(offset, user, at_ms):
            return Decision("left", "bot: rate", b"")
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
    except (ValueError, RecursionError):  # no JSON, thousands of digits, or nested a thousand times
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
# Escaped, so that half a surrogate pair is no trouble to write.
_WRITER = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False)
