"""Copies of events, of every kind that landing tells apart and the simulator does not make."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from gold import numbered

from config.declarations import topics

Sent = tuple[str, int, bytes, bytes, datetime]
EACH = 3


def with_copies(records: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Add, after the records of a log, copies of its clicks, and events that reuse their ids."""
    sent = [(*record[:2], *record[3:5], record[6]) for record in records]
    return numbered([*sent, *_copies(sent)])


def _copies(sent: list[Sent]) -> Iterator[Sent]:
    """Copy late and punctual clicks: each kind arrives in time, and too late, with its content and with another."""
    allowance = topics()["clicks"].lateness.allowance
    assert allowance
    last = max(arrival for *_, arrival in sent)
    first_copies: dict[str, tuple[Sent, datetime]] = {}
    for record in sent:
        if record[0] == "clicks" and record[3].endswith(b"}") and b'"dwell_ms"' in record[3]:
            event = json.loads(record[3])
            if isinstance(event.get("event_id"), str) and isinstance(event.get("dwell_ms"), int):
                first_copies.setdefault(event["event_id"], (record, datetime.fromisoformat(event["event_time"])))
    late = [each for each in first_copies.values() if each[0][4] - each[1] > allowance]
    punctual = [each for each in first_copies.values() if each[0][4] - each[1] <= allowance]
    for kind in (late, punctual):
        assert len(kind) >= 4 * EACH
        for number, ((topic, partition, key, value, _), at) in enumerate(kind[: 4 * EACH]):
            # A producer can send a copy with the time of the first try: it is in time, although the first was late.
            arrival = at + timedelta(seconds=1) if number % 2 else last
            another = value.replace(b'"dwell_ms":', b'"dwell_ms":9')
            yield topic, partition, key, another if number % 4 < 2 else value, arrival
