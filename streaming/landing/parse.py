"""Records of the log -> typed events, with every rule each of them breaks.

One projection parses and judges all topics of a micro-batch. Nearly every record is clean, so the way of a clean
record is cheap: Spark's own JSON parser, null checks, and counts of a few characters that prove that the parser
overlooked nothing (docs/decisions/0004). Only where they do not match is a record parsed strictly, as a variant.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from config.declarations import Table, Topic, landed_tables, topics
from config.rules import Rule, rules

CORRUPT = "_corrupt"
OF_A_RECORD = {
    **{"event_id": "string", "event_time": "timestamp", "event_date": "date", "arrival_time": "timestamp"},
    **{"partition": "int", "offset": "bigint", "content_hash": "bigint"},
}
"""What there is of every record, whatever its topic: a judged row has it once, beside its event."""

JSON_OPTIONS = {
    "columnNameOfCorruptRecord": CORRUPT,
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'",
    "timeZone": "UTC",
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}


@dataclass(frozen=True)
class Contract:
    """What a topic promises: the form of its events, the table they land in, the rules they keep."""

    topic: Topic
    table: Table
    rules: tuple[Rule, ...]


@cache
def contracts() -> tuple[Contract, ...]:
    """Put together the contracts of all landed topics."""
    return tuple(
        Contract(topics()[str(table.topic)], table, tuple(r for r in rules(table.name) if r.severity == "quarantine"))
        for table in landed_tables()
    )


def parse(records: DataFrame) -> DataFrame:
    """Give each record its event, typed, how late it came, and what it broke.

    All topics share the fields of one event: of a struct for each topic, most would be empty in every row, and nothing
    costs as much to carry about as emptiness in many columns.

    records: topic, partition, offset, key, value, headers, arrival_time
    """
    events, first_sight, found = _steps()
    return (
        records.select("*", *events)
        .select("*", *first_sight)
        .select(*records.columns, "content_hash", "event_id", "event_time", "event_date", *found)
    )


def landing_columns(contract: Contract) -> list[Column]:
    """Take the columns of a topic's table out of judged rows."""
    return [F.col(".".join(f"`{part}`" for part in place)).alias(name) for name, place in places(contract).items()]


def places(contract: Contract) -> dict[str, tuple[str, ...]]:
    """Say where a judged row has each column of a topic's table: beside its event, or in a field of it."""
    return {
        name: (name,)
        if column.source == name and OF_A_RECORD.get(name) == column.type
        else ("event", _event_field(contract, name))
        for name, column in contract.table.stored.items()
    }


def _event_field(contract: Contract, name: str) -> str:
    """Name the event's field for a column: one for all topics if it has the same type wherever it is declared."""
    types = {c.table.stored[name].type for c in contracts() if name in c.table.stored}
    return name if len(types) == 1 else f"{contract.topic.name}:{name}"


@cache
def _steps() -> tuple[list[Column], list[Column], list[Column]]:
    """Build the steps of parsing, once: each node of an expression is a call into the JVM."""
    promised = contracts()
    # Once: each time that a binary column is taken for text, Spark copies it.
    text = F.col("value").cast("string").alias("text")
    broken = F.when(F.col("clean"), F.array().cast("array<string>")).otherwise(_per_topic(promised, _broken))
    found = [
        F.expr("case when lateness > allowance then lateness end").alias("late_by_ms"),
        broken.alias("rules"),
        F.struct(*_typed(promised)).alias("event"),
    ]
    return [F.xxhash64("value").alias("content_hash"), text, *_events(promised)], _first_sight(promised), found


def _typed(promised: tuple[Contract, ...]) -> list[Column]:
    """Take the fields that tables declare out of the parsed events; of a record's topics only one has parsed it."""
    found: dict[str, list[Column]] = {}
    for contract in promised:
        for name, place in places(contract).items():
            if place[0] == "event":
                column = contract.table.stored[name]
                found.setdefault(place[1], []).append(_field(contract, str(column.source)).cast(column.type))
    return [F.coalesce(*columns).alias(field) for field, columns in found.items()]


def _events(promised: tuple[Contract, ...]) -> list[Column]:
    text = F.col("value").cast("string")
    return [
        F.when(
            F.col("topic") == c.topic.name, F.from_json(text, f"{c.topic.payload_ddl}, {CORRUPT} string", JSON_OPTIONS)
        ).alias(c.topic.name)
        for c in promised
    ]


def _first_sight(promised: tuple[Contract, ...]) -> list[Column]:
    clean = F.coalesce(_per_topic(promised, _clean), F.lit(False))
    event_time = F.coalesce(*(_field(c, "event_time") for c in promised))
    return [
        clean.alias("clean"),
        # In the same step, where Spark works `clean` out once: one more step is one more copy of every row.
        F.when(~clean, F.expr("try_parse_json(text)")).alias("variant"),
        F.coalesce(*(_field(c, "event_id") for c in promised)).alias("event_id"),
        event_time.alias("event_time"),
        F.to_date(event_time).alias("event_date"),
        (F.unix_millis("arrival_time") - F.unix_millis(event_time)).alias("lateness"),
        _per_topic(promised, _allowance).alias("allowance"),
    ]


def _per_topic(promised: tuple[Contract, ...], make: Callable[[Contract], Column]) -> Column:
    first, *others = promised
    choice = F.when(F.col("topic") == first.topic.name, make(first))
    for contract in others:
        choice = choice.when(F.col("topic") == contract.topic.name, make(contract))
    return choice


def _field(contract: Contract, path: str) -> Column:
    return F.col(f"`{contract.topic.name}`.{path}")


def _allowance(contract: Contract) -> Column:
    """Give the topic's allowance in milliseconds; one that is never late has none, and no comparison holds."""
    allowance = contract.topic.lateness.allowance
    return F.lit(None).cast("bigint") if allowance is None else F.lit(int(allowance.total_seconds() * 1000))


def _clean(contract: Contract) -> Column:
    clean = _valid_utf8() & _nothing_overlooked(contract) & _field(contract, CORRUPT).isNull()
    for breach in (_schema_rules(contract) | _own_rules(contract)).values():
        clean = clean & ~breach
    return clean


def _broken(contract: Contract) -> Column:
    """List all rules a record broke; of one that cannot be read, only why it cannot."""
    unreadable = (
        F.when(F.expr("text is null or octet_length(text) = 0"), F.lit("no_value"))
        .when(~_valid_utf8(), F.lit("not_utf8"))
        .when(_not_an_object(contract), F.lit("not_json"))
        .when(~_strict(), F.lit("ambiguous_json"))
    )
    breaches = _type_rules(contract) | _schema_rules(contract) | _own_rules(contract)
    named = [F.when(breach, F.lit(name)) for name, breach in breaches.items()]
    return F.when(unreadable.isNotNull(), F.array(unreadable)).otherwise(F.array_compact(F.array(*named)))


def _schema_rules(contract: Contract) -> dict[str, Column]:
    """Derive from the topic's JSON Schema what must be there and which values it may have."""
    schema = contract.topic.events
    found: dict[str, Column] = {}
    for name in schema["required"]:
        found[f"{name}_missing"] = _field(contract, name).isNull()
    for clause in schema.get("allOf", []):
        applies = F.lit(True)
        for name, condition in clause["if"]["properties"].items():
            allowed = condition.get("enum") or [condition["const"]]
            applies = applies & F.coalesce(_field(contract, name).isin(allowed), F.lit(False))
        for name in clause["then"]["required"]:
            missing = applies & _field(contract, name).isNull()
            found[f"{name}_missing"] = found[f"{name}_missing"] | missing if f"{name}_missing" in found else missing
    for path, prop in _leaves(schema["properties"]):
        if "enum" in prop:
            breach = ~_field(contract, path).isin(prop["enum"])
            found[f"{path.replace('.', '_')}_unknown"] = F.coalesce(breach, F.lit(False))
    return found


def _own_rules(contract: Contract) -> dict[str, Column]:
    """Take the rules of the table's rule file, and the two that every topic has: its clock and its key."""
    prefix = f"`{contract.topic.name}`."
    columns = {name: f"{prefix}{c.source}" for name, c in contract.table.columns.items() if c.source}
    found = {rule.name: F.expr(f"coalesce(not ({rule.sql(columns)}), false)") for rule in contract.rules}
    ahead = int(contract.topic.lateness.max_clock_ahead.total_seconds() * 1000)
    event_time = f"{prefix}event_time"
    found["event_time_ahead"] = F.expr(
        f"coalesce(unix_millis({event_time}) - unix_millis(arrival_time) > {ahead}, false)"
    )
    if contract.topic.key:
        field = _field(contract, contract.topic.key)
        found["key_differs"] = field.isNotNull() & ~F.col("key").cast("string").eqNullSafe(field)
    return found


def _type_rules(contract: Contract) -> dict[str, Column]:
    """Find fields that are there but of another type; only records off the cheap way get here."""
    found = {}
    for path, prop in _leaves(contract.topic.events["properties"]):
        value = f"try_variant_get(variant, '$.{path}', 'variant')"
        there = F.expr(f"{value} is not null and not is_variant_null({value})")
        wrong = _field(contract, path).isNull()
        if prop["type"] == "string":
            wrong = wrong | (F.expr(f"schema_of_variant({value})") != "STRING")
        found[f"{path.replace('.', '_')}_type"] = there & wrong
    return found


def _valid_utf8() -> Column:
    return F.expr("is_valid_utf8(text)")


def _not_an_object(contract: Contract) -> Column:
    event = F.col(f"`{contract.topic.name}`")
    kind = F.expr("schema_of_variant(variant)")
    unparsed = F.col("variant").isNull() & _field(contract, CORRUPT).isNotNull()
    return event.isNull() | unparsed | F.coalesce(~kind.startswith("OBJECT"), F.lit(False))


def _strict() -> Column:
    """Hold where the value is one JSON object with no key twice in it and nothing after it."""
    alone = "concat('[', text, ']')"
    return F.expr(f"try_parse_json({alone}) is not null and json_array_length({alone}) = 1")


def _nothing_overlooked(contract: Contract) -> Column:
    """Hold where a record's quotes, commas and braces are just what its parsed fields account for.

    The parser takes the last of two equal keys, numbers and lists for text, and stops after the first object; each
    of these leaves a mark too many or too few, and the record goes the strict way. So does one with a list in it, or
    with an escaped character: quotes within text could stand in for those that a number taken for text has not.
    """
    quotes, keys, objects = F.lit(0), F.lit(0), F.lit(1)
    for path, prop in _leaves(contract.topic.events["properties"]):
        there = _field(contract, path).isNotNull()
        quotes = quotes + F.when(there, 4 if prop["type"] == "string" else 2).otherwise(0)
        keys = keys + F.when(there, 1).otherwise(0)
        if prop["type"] == "object":
            objects = objects + F.when(there, 1).otherwise(0)
    plain = F.expr(r"endswith(text, '}') and not contains(text, '[') and not contains(text, r'\')")
    return plain & (_count("}") == objects) & (_count(",") == keys - objects) & (_count('"') == quotes)


def _count(mark: str) -> Column:
    return F.expr(f"octet_length(text) - octet_length(replace(text, '{mark}', ''))")


def _leaves(properties: dict[str, Any], before: str = "") -> list[tuple[str, dict[str, Any]]]:
    found = []
    for name, prop in properties.items():
        found.append((before + name, prop))
        if prop["type"] == "object":
            found += _leaves(prop["properties"], f"{before}{name}.")
    return found
