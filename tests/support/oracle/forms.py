"""The forms of events, copied by hand from the topics' declarations and the rules of silver."""

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


def envelope(*types: str) -> dict[str, Field]:
    """Return the fields that every event has."""
    not_before = "event_time >= timestamp '2000-01-01'"
    not_ahead = "event_time <= arrival_time + interval 2 minutes"
    return {
        "event_id": Field(needed=ALWAYS),
        "type": choice("type", *types, needed=ALWAYS),
        "event_time": Field("time", ALWAYS, f"{not_before} and {not_ahead}"),
        "schema_version": whole("schema_version = 1", ALWAYS),
    }


TIERS = ("bronze", "silver", "gold", "platinum")
COUNTRY = "regexp_full_match(country, '[A-Z]{2}')"
PLACED = one_of("type", "order_placed")
SHOWN = one_of("type", "impression", "click")

FORMS = {
    "clicks": Form(
        key="user_id",
        fields={
            **envelope("page_view", "impression", "click", "add_to_cart"),
            "user_id": Field(needed=ALWAYS),
            "product_id": Field(needed=ALWAYS),
            "dwell_ms": whole("dwell_ms between 0 and 86400000", one_of("type", "page_view")),
            "impression_id": Field(needed=SHOWN),
            "quantity": whole("quantity > 0", one_of("type", "add_to_cart")),
            "ip": Field(),
            "agent": Field(),
        },
    ),
    "orders": Form(
        key="order_id",
        fields={
            **envelope("order_placed", "order_status_changed"),
            "order_id": Field(needed=ALWAYS),
            "user_id": Field(needed=PLACED),
            "product_id": Field(needed=PLACED),
            "merchant_id": Field(needed=PLACED),
            "quantity": whole("quantity > 0", PLACED),
            "amount_cents": whole("amount_cents >= 0", PLACED),
            "status": choice(
                "status",
                *("placed", "paid", "packed", "shipped", "delivered", "cancelled"),
                needed=one_of("type", "order_status_changed"),
            ),
        },
    ),
    "payments": Form(
        key="order_id",
        fields={
            **envelope("payment_received", "payment_failed"),
            "order_id": Field(needed=ALWAYS),
            "payment_id": Field(needed=ALWAYS),
            "user_id": Field(),
            "merchant_id": Field(needed=ALWAYS),
            "amount_cents": whole("amount_cents >= 0", ALWAYS),
            "method": choice("method", "card", "transfer", "wallet"),
            "country": Field(needed=ALWAYS, holds=COUNTRY),
            "reason": Field(needed=one_of("type", "payment_failed")),
        },
    ),
    "users": Form(
        key="user_id",
        late=False,
        fields={
            **envelope("user_changed"),
            "user_id": Field(needed=ALWAYS),
            "op": choice("op", "c", "u", "d", needed=ALWAYS),
            "before": Field("object", one_of("op", "u", "d")),
            "after": Field("object", one_of("op", "c", "u")),
            "tier": choice("tier", *TIERS, path="after.tier"),
            "country": Field(holds=COUNTRY, path="after.country"),
            "email": Field(path="after.email"),
            "tier_before": choice("tier_before", *TIERS, path="before.tier"),
            "country_before": Field(path="before.country"),
            "email_before": Field(path="before.email"),
        },
    ),
}
