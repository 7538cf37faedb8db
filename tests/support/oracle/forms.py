"""The form of an event: its fields, when each must be there, and what must hold; one file of topics/ for each topic."""

from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["text", "whole", "time", "object"]
ALWAYS, NEVER = "true", "false"


@dataclass(frozen=True)
class Field:
    """One field of an event: what it is, when it must be there, and what must hold where it is."""

    kind: Kind = "text"
    needed: str = NEVER
    """When it must be there, in SQL over the fields of its event."""
    holds: str = "true"
    """What must be true of it, in SQL; a field that is not there breaks nothing."""
    path: str | None = None
    """Where it stands in the document, if not at the top under its own name."""


@dataclass(frozen=True)
class Form:
    """What the events of one topic look like."""

    key: str
    fields: dict[str, Field] = field(default_factory=dict)
    late: bool = True
    """Whether its events can come too late."""

    def paths(self) -> list[str]:
        """Give the places of all fields."""
        return [f"$.{place.path or name}" for name, place in self.fields.items()]

    def objects(self) -> list[str]:
        """Give the places of the document and of all objects in it."""
        return ["$", *(f"$.{name}" for name, place in self.fields.items() if place.kind == "object")]


def one_of(name: str, *values: str) -> str:
    """Say in SQL that a field has one of these values."""
    return f"{name} in ({', '.join(repr(value) for value in values)})"


def choice(name: str, *values: str, needed: str = NEVER, path: str | None = None) -> Field:
    """Make a field of text that has one of these values."""
    return Field(needed=needed, holds=one_of(name, *values), path=path)


def whole(holds: str, needed: str = NEVER) -> Field:
    """Make a field that is a whole number."""
    return Field("whole", needed, holds)


def envelope(*types: str) -> dict[str, Field]:
    """Give the fields that every event has."""
    not_before = "event_time >= timestamp '2000-01-01'"
    not_ahead = "event_time <= arrival_time + interval 2 minutes"
    return {
        "event_id": Field(needed=ALWAYS),
        "type": choice("type", *types, needed=ALWAYS),
        "event_time": Field("time", ALWAYS, f"{not_before} and {not_ahead}"),
        "schema_version": whole("schema_version = 1", ALWAYS),
    }


COUNTRY = "regexp_full_match(country, '[A-Z]{2}')"
