"""The form of an event: its fields, when each must be there, and what must hold; one file of topics/ for each topic."""

from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["text", "whole", "time", "object"]
ALWAYS, NEVER = "true", "false"


@dataclass(frozen=True)
class Field:
    """One field of an event: its type, when it is required, and its check."""

    kind: Kind = "text"
    needed: str = NEVER
    """When it is required, in SQL over the fields of its event."""
    holds: str = "true"
    """Its check in SQL; a missing field passes."""
    path: str | None = None
    """Its path in the document, if it is not at the top under its own name."""


@dataclass(frozen=True)
class Form:
    """The schema of the events of one topic."""

    key: str
    fields: dict[str, Field] = field(default_factory=dict)
    late: bool = True
    """Whether its events can be late."""

    def paths(self) -> list[str]:
        """Return the paths of all fields."""
        return [f"$.{place.path or name}" for name, place in self.fields.items()]

    def objects(self) -> list[str]:
        """Return the paths of the document and of all objects in it."""
        return ["$", *(f"$.{name}" for name, place in self.fields.items() if place.kind == "object")]


def one_of(name: str, *values: str) -> str:
    """Return the SQL condition that a field has one of these values."""
    return f"{name} in ({', '.join(repr(value) for value in values)})"


def choice(name: str, *values: str, needed: str = NEVER, path: str | None = None) -> Field:
    """Return a text field with one of these values."""
    return Field(needed=needed, holds=one_of(name, *values), path=path)


def whole(holds: str, needed: str = NEVER) -> Field:
    """Return an integer field."""
    return Field("whole", needed, holds)


def envelope(*types: str, ages: bool = True) -> dict[str, Field]:
    """Return the fields that every event has; ages: whether an event can be too old when it arrives."""
    oldest = "arrival_time - interval 30 days" if ages else "timestamp '2000-01-01'"
    not_before = f"event_time >= greatest(timestamp '2000-01-01', {oldest})"
    not_ahead = "event_time <= arrival_time + interval 2 minutes"
    return {
        "event_id": Field(needed=ALWAYS),
        "type": choice("type", *types, needed=ALWAYS),
        "event_time": Field("time", ALWAYS, f"{not_before} and {not_ahead}"),
        "schema_version": whole("schema_version = 1", ALWAYS),
    }


COUNTRY = "regexp_full_match(country, '[A-Z]{2}')"
