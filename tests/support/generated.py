"""Generated events: a topic's JSON schema -> valid records, many of them on the edge of a window.

The simulator knows the shop's topics. A topic that `lakehouse new topic` adds has events in the tests all the same, so
every table that depends on it has rows to compare with the oracle.
"""

import json
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from config.declarations import Topic, landed_tables, topics
from local.simulator.keys import partition_of

STEP = timedelta(minutes=5)
# Around the full five minutes, on which the edges of nearly all windows, sessions and joins lie.
BESIDE_EDGE = (timedelta(milliseconds=-1), timedelta(0), timedelta(milliseconds=1), timedelta(seconds=90))
VALUES = 3
"""How many values a text field has: few, so that joins by it find partners."""


def landed_topics() -> dict[str, Topic]:
    """Give every topic that lands in a silver table."""
    return {str(table.topic): topics()[str(table.topic)] for table in landed_tables()}


def generated(topic: Topic, start: datetime, length: timedelta, events: int, seed: int = 1) -> list[tuple[Any, ...]]:
    """Generate records (topic, partition, key, value, arrival): events, some copies of them, some too late."""
    random = Random(f"{seed} {topic.name}")
    found = []
    for number in range(events):
        happened = start + STEP * random.randrange(1, length // STEP) + random.choice(BESIDE_EDGE)
        event = _value(topic.events, random) | {
            "event_id": f"{topic.name}-{number}",
            "event_time": _written(happened),
        }
        arrived = happened + timedelta(seconds=random.randrange(1, 60))
        found.append((event, arrived))
        if number % 20 == 0:
            found.append((event, arrived + timedelta(seconds=1)))
        if number % 25 == 0:
            late = event | {"event_id": f"{topic.name}-late-{number}"}
            found.append((late, happened + (topic.lateness.allowance or timedelta(0)) + timedelta(minutes=30)))
    return [_record(topic, event, arrived) for event, arrived in found]


def _record(topic: Topic, event: dict[str, Any], arrived: datetime) -> tuple[Any, ...]:
    key = str(event[topic.key]).encode() if topic.key else b""
    value = json.dumps(event, separators=(",", ":")).encode()
    return topic.name, partition_of(key, topic.partitions), key, value, arrived


def _value(schema: dict[str, Any], random: Random, name: str = "") -> Any:
    """Make up a value of a JSON schema: one of its examples or allowed values, if it names any."""
    if choices := schema.get("examples") or schema.get("enum"):
        return random.choice(choices)
    match schema.get("type"):
        case "object":
            needed = schema.get("required", [])
            given = {
                name: inner for name, inner in schema["properties"].items() if name in needed or random.random() < 0.9
            }
            return {name: _value(inner, random, name) for name, inner in given.items()}
        case "array":
            return [_value(schema["items"], random, name)]
        case "integer":
            return random.randrange(1, 100)
        case "number":
            return random.randrange(1, 100) / 4
        case "boolean":
            return random.random() < 0.5
        case _ if schema.get("format") == "date-time":
            return _written(datetime(2026, 1, 1, tzinfo=UTC))
        case _:
            return f"{name}-{random.randrange(VALUES)}"


def _written(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
