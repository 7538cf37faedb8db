"""Contract of the router: the fields that a raw click must have, and the declared form of each that it keeps.

The router is the only way from the web edge into the tables, so nothing that it keeps may be free text, in which a
browser can send anything. A string that is kept must have a `pattern`, an `enum` or a `format` in the declaration of
`clicks_raw`, an integer an `enum` or both bounds: an unbounded one can be a telephone number.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

from config.declarations import topics
from config.errors import LakehouseError

REDUCED = ("ip", "user_agent")
"""Fields that are not kept but reduced: to the network, and to browser family and device."""

_TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z"
HasForm = Callable[[Any], bool]


class Contract(NamedTuple):
    """The fields that a raw click must have and those that it may keep, as the two topics declare them."""

    required: tuple[str, ...]
    by_type: Mapping[str, tuple[str, ...]]
    """Fields required only for one event type."""
    kept: Mapping[str, HasForm]
    """The fields to keep, each with the check of its type and form."""


@cache
def contract() -> Contract:
    """Build the contract from the declarations of `clicks_raw` and `clicks`."""
    raw, clean = topics()["clicks_raw"].events, topics()["clicks"].events
    by_type: dict[str, tuple[str, ...]] = {}
    for clause in raw.get("allOf", ()):
        condition = clause["if"]["properties"]["type"]
        for kind in condition.get("enum", [condition.get("const")]):
            by_type[kind] = (*by_type.get(kind, ()), *clause["then"]["required"])
    kept = {
        name: form(name, declared)
        for name, declared in raw["properties"].items()
        if name in clean["properties"] and name not in REDUCED
    }
    return Contract(tuple(raw["required"]), by_type, kept)


def form(name: str, declared: Mapping[str, Any]) -> HasForm:
    """Return the check of a field's type and form; raise an error if the declaration leaves them open."""
    match declared:
        case {"type": "string", "enum": allowed}:
            return lambda value: type(value) is str and value in allowed
        case {"type": "string", "format": "date-time"}:
            return _matches(_TIME)
        case {"type": "string", "pattern": pattern}:
            return _matches(pattern)
        case {"type": "integer", "enum": allowed}:
            return lambda value: type(value) is int and value in allowed
        case {"type": "integer", "minimum": least, "maximum": most}:
            return lambda value: type(value) is int and least <= value <= most
        case {"type": "boolean"}:
            return lambda value: type(value) is bool
    raise LakehouseError(
        f"config/topics/clicks_raw.yaml: {name}: the router would keep this field, but its form is open, and so it "
        "could carry personal data.",
        "Give a string a pattern, an enum or a format, an integer an enum or minimum and maximum; or take the field "
        "out of config/topics/clicks.yaml.",
    )


def _matches(pattern: str) -> HasForm:
    """Check the whole string: JSON Schema's `$` would let a line break pass at its end."""
    full = re.compile(pattern, re.ASCII).fullmatch
    return lambda value: type(value) is str and full(value) is not None
