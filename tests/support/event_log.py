"""A hand-made log for the oracle: a type and a time make a valid record, and results come back as plain rows."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from oracle import Oracle, from_rows

DAY = "2026-01-05T"
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "page_view": ("clicks", {"user_id": "u1", "product_id": "p1", "dwell_ms": 100}),
    "impression": ("clicks", {"user_id": "u1", "product_id": "p1", "impression_id": "i1"}),
    "click": ("clicks", {"user_id": "u1", "product_id": "p1", "impression_id": "i1"}),
    "add_to_cart": ("clicks", {"user_id": "u1", "product_id": "p1", "quantity": 1}),
    "order_placed": (
        "orders",
        {
            "order_id": "o1",
            "user_id": "u1",
            "product_id": "p1",
            "merchant_id": "m1",
            "quantity": 1,
            "amount_cents": 500,
        },
    ),
    "order_status_changed": ("orders", {"order_id": "o1", "status": "paid"}),
    "payment_received": (
        "payments",
        {"order_id": "o1", "payment_id": "y1", "merchant_id": "m1", "amount_cents": 500, "country": "DE"},
    ),
    "user_changed": ("users", {"user_id": "u1", "op": "u", "before": {}, "after": {"tier": "gold"}}),
}


def moment(clock: str) -> datetime:
    """Parse a time; without a date it is on the day of the tests: 12:00, 12:00:00.001 or 2026-01-06T12:00."""
    return datetime.fromisoformat(clock if "T" in clock else DAY + clock).replace(tzinfo=UTC)


def written(time: datetime) -> str:
    """Format a time as in an event."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time.microsecond // 1000:03d}Z"


def event(kind: str, event_id: str, clock: str, **fields: Any) -> dict[str, Any]:
    """Make a valid event; `fields` replace its fields, and `...` leaves one out."""
    head = {"event_id": event_id, "type": kind, "event_time": written(moment(clock)), "schema_version": 1}
    return {name: value for name, value in (head | FORMS[kind][1] | fields).items() if value is not ...}


class EventLog:
    """Records in the order of the log."""

    def __init__(self) -> None:
        self.records: list[tuple[Any, ...]] = []

    def add(
        self, kind: str, event_id: str, clock: str, arrival: str | None = None, partition: int = 0, **fields: Any
    ) -> None:
        """Append an event; it arrives one second after its event time unless `arrival` is given."""
        added = event(kind, event_id, clock, **fields)
        arrived = moment(arrival) if arrival else moment(clock) + timedelta(seconds=1)
        topic = FORMS[kind][0]
        key = added.get("order_id", added.get("user_id", "")).encode()
        self.put(topic, json.dumps(added).encode(), key, arrived, partition)

    def put(self, topic: str, value: bytes | None, key: bytes | None, arrived: datetime, partition: int = 0) -> None:
        """Append a raw record."""
        offset = sum(1 for record in self.records if record[:2] == (topic, partition))
        self.records.append((topic, partition, offset, key, value, arrived))

    def outcomes(self, **options: Any) -> list[str]:
        """Return the outcomes of all records, in the order of the log."""
        rows = Oracle(from_rows(self.records)).classified(**options).to_pylist()
        found = {(row["topic"], row["partition"], row["offset"]): row["outcome"] for row in rows}
        return [found[record[:3]] for record in self.records]

    def rows(self, table: str, columns: str, **options: Any) -> list[tuple[Any, ...]]:
        """Return some columns of a table, sorted, with times in their shortest form."""
        answer = Oracle(from_rows(self.records)).table(table, **options).select(columns.split()).to_pylist()
        return sorted((tuple(_short(value) for value in row.values()) for row in answer), key=repr)


def _short(value: Any) -> Any:
    if not isinstance(value, datetime):
        return value
    text = value.isoformat(timespec="milliseconds").removesuffix("+00:00").removeprefix(DAY)
    return text.removesuffix(".000").removesuffix(":00")
