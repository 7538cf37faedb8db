"""Parsing: Kafka records -> typed events, with every rule that each record breaks.

One projection parses and validates all topics of a micro-batch. Nearly every record is clean, so clean records take a
cheap path: Spark's JSON parser, null checks, and counts of a few characters which prove that the parser ignored
nothing (docs/decisions/0004). Only records whose counts do not match are parsed strictly, as a variant.
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
RECORD_COLUMNS = {
    **{"event_id": "string", "event_time": "timestamp", "event_date": "date", "arrival_time": "timestamp"},
    **{"partition": "int", "offset": "bigint", "content_hash": "bigint"},
}
"""Columns that every topic has, with their types: a parsed row holds them at the top level, outside `event`."""

JSON_OPTIONS = {
    "columnNameOfCorruptRecord": CORRUPT,
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'",
    "timeZone": "UTC",
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}


@dataclass(frozen=True)
class Contract:
    """A topic with its event schema, the table its events land in, and the rules that quarantine an event."""

    topic: Topic
    table: Table
    rules: tuple[Rule, ...]


@cache
def contracts() -> tuple[Contract, ...]:
    """Return the contracts of all landed topics."""
    return tuple(
        Contract(topics()[str(table.topic)], table, tuple(r for r in rules(table.name) if r.severity == "quarantine"))
        for table in landed_tables()
    )


def parse(records: DataFrame) -> DataFrame:
    """Add to each record its typed event, how late it arrived, and the rules it breaks.

    All topics share the fields of one `event` struct. With a struct per topic, most columns would be null in every
    row, and many null columns are expensive to move.

    records: topic, partition, offset, key, value, headers, arrival_time
    """
    parsed, checked, output = _projections()
    return (
        records.select("*", *parsed)
        .select("*", *checked)
        .select(*records.columns, "content_hash", "event_id", "event_time", "event_date", *output)
    )


def landing_columns(contract: Contract) -> list[Column]:
    """Select the columns of a topic's table from parsed rows in Spark."""
    paths = column_paths(contract)
    return [F.col(".".join(f"`{part}`" for part in path)).alias(name) for name, path in paths.items()]


def column_paths(contract: Contract) -> dict[str, tuple[str, ...]]:
    """Return the path of each column of a topic's table in a parsed row: at the top level, or a field of `event`."""
    return {
        name: (name,)
        if column.source == name and RECORD_COLUMNS.get(name) == column.type
        else ("event", _event_field(contract, name))
        for name, column in contract.table.stored.items()
    }


def _event_field(contract: Contract, name: str) -> str:
    """Name the `event` field of a column; topics share it if they all declare the column with the same type."""
    types = {c.table.stored[name].type for c in contracts() if name in c.table.stored}
    return name if len(types) == 1 else f"{contract.topic.name}:{name}"


@cache
def _projections() -> tuple[list[Column], list[Column], list[Column]]:
    """Build the three projections once: each node of an expression is a call into the JVM."""
    # Cast once: Spark copies a binary column each time it is cast to a string.
    text = F.col("value").cast("string").alias("text")
    broken = F.when(F.col("clean"), F.array().cast("array<string>")).otherwise(_per_topic(_broken))
    output = [
        F.expr("case when lateness > allowance then lateness end").alias("late_by_ms"),
        broken.alias("rules"),
        F.struct(*_event_fields()).alias("event"),
    ]
    return [F.xxhash64("value").alias("content_hash"), text, *_parsed_values()], _checks(), output


def _event_fields() -> list[Column]:
    """Build the fields of `event`; coalesce works because only the record's own topic has a parsed value."""
    columns_by_field: dict[str, list[Column]] = {}
    for contract in contracts():
        for name, path in column_paths(contract).items():
            if path[0] == "event":
                column = contract.table.stored[name]
                value = _field(contract, str(column.source)).cast(column.type)
                columns_by_field.setdefault(path[1], []).append(value)
    return [F.coalesce(*columns).alias(field) for field, columns in columns_by_field.items()]


def _parsed_values() -> list[Column]:
    text = F.col("value").cast("string")
    return [
        F.when(
            F.col("topic") == c.topic.name, F.from_json(text, f"{c.topic.payload_ddl}, {CORRUPT} string", JSON_OPTIONS)
        ).alias(c.topic.name)
        for c in contracts()
    ]


def _checks() -> list[Column]:
    clean = F.coalesce(_per_topic(_clean), F.lit(False))
    event_time = F.coalesce(*(_field(c, "event_time") for c in contracts()))
    return [
        clean.alias("clean"),
        # In the same projection: Spark computes `clean` once, and another projection would copy every row again.
        F.when(~clean, F.expr("try_parse_json(text)")).alias("variant"),
        F.coalesce(*(_field(c, "event_id") for c in contracts())).alias("event_id"),
        event_time.alias("event_time"),
        F.to_date(event_time).alias("event_date"),
        (F.unix_millis("arrival_time") - F.unix_millis(event_time)).alias("lateness"),
        _per_topic(_allowance).alias("allowance"),
    ]


def _per_topic(expression: Callable[[Contract], Column]) -> Column:
    """Choose, by the record's topic, the expression of that topic's contract."""
    first, *others = contracts()
    choice = F.when(F.col("topic") == first.topic.name, expression(first))
    for contract in others:
        choice = choice.when(F.col("topic") == contract.topic.name, expression(contract))
    return choice


def _field(contract: Contract, path: str) -> Column:
    return F.col(f"`{contract.topic.name}`.{path}")


def _allowance(contract: Contract) -> Column:
    """Return the topic's allowance in milliseconds; null for a topic whose events are never late."""
    allowance = contract.topic.lateness.allowance
    return F.lit(None).cast("bigint") if allowance is None else F.lit(int(allowance.total_seconds() * 1000))


def _clean(contract: Contract) -> Column:
    clean = _valid_utf8() & _nothing_ignored(contract) & _field(contract, CORRUPT).isNull()
    for breach in (_schema_rules(contract) | _own_rules(contract)).values():
        clean = clean & ~breach
    return clean


def _broken(contract: Contract) -> Column:
    """List all rules a record breaks; for a record that cannot be read, only the reason why."""
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
    """Derive rules from the topic's JSON Schema: required fields and allowed values."""
    schema = contract.topic.events
    breaches: dict[str, Column] = {}
    for name in schema["required"]:
        breaches[f"{name}_missing"] = _field(contract, name).isNull()
    for clause in schema.get("allOf", []):
        applies = F.lit(True)
        for name, condition in clause["if"]["properties"].items():
            allowed = condition.get("enum") or [condition["const"]]
            applies = applies & F.coalesce(_field(contract, name).isin(allowed), F.lit(False))
        for name in clause["then"]["required"]:
            rule, missing = f"{name}_missing", applies & _field(contract, name).isNull()
            breaches[rule] = breaches[rule] | missing if rule in breaches else missing
    for path, prop in _fields(schema["properties"]):
        if "enum" in prop:
            breach = ~_field(contract, path).isin(prop["enum"])
            breaches[f"{path.replace('.', '_')}_unknown"] = F.coalesce(breach, F.lit(False))
    return breaches


def _own_rules(contract: Contract) -> dict[str, Column]:
    """Apply the rules of the table's rule file, and the two rules of every topic: its clock and its key."""
    prefix = f"`{contract.topic.name}`."
    columns = {name: f"{prefix}{c.source}" for name, c in contract.table.columns.items() if c.source}
    breaches = {rule.name: F.expr(f"coalesce(not ({rule.sql(columns)}), false)") for rule in contract.rules}
    ahead = int(contract.topic.lateness.max_clock_ahead.total_seconds() * 1000)
    event_time = f"{prefix}event_time"
    breaches["event_time_ahead"] = F.expr(
        f"coalesce(unix_millis({event_time}) - unix_millis(arrival_time) > {ahead}, false)"
    )
    if contract.topic.key:
        field = _field(contract, contract.topic.key)
        breaches["key_differs"] = field.isNotNull() & ~F.col("key").cast("string").eqNullSafe(field)
    return breaches


def _type_rules(contract: Contract) -> dict[str, Column]:
    """Detect fields that are present with another type; only records off the cheap path get here."""
    breaches = {}
    for path, prop in _fields(contract.topic.events["properties"]):
        value = f"try_variant_get(variant, '$.{path}', 'variant')"
        present = F.expr(f"{value} is not null and not is_variant_null({value})")
        wrong = _field(contract, path).isNull()
        if prop["type"] == "string":
            wrong = wrong | (F.expr(f"schema_of_variant({value})") != "STRING")
        breaches[f"{path.replace('.', '_')}_type"] = present & wrong
    return breaches


def _valid_utf8() -> Column:
    return F.expr("is_valid_utf8(text)")


def _not_an_object(contract: Contract) -> Column:
    event = F.col(f"`{contract.topic.name}`")
    kind = F.expr("schema_of_variant(variant)")
    unparsed = F.col("variant").isNull() & _field(contract, CORRUPT).isNotNull()
    return event.isNull() | unparsed | F.coalesce(~kind.startswith("OBJECT"), F.lit(False))


def _strict() -> Column:
    """Test that the value is one JSON object, without repeated keys and with nothing after it."""
    as_array = "concat('[', text, ']')"
    return F.expr(f"try_parse_json({as_array}) is not null and json_array_length({as_array}) = 1")


def _nothing_ignored(contract: Contract) -> Column:
    """Test that the parsed fields account for every quote, comma and brace of the text.

    The parser keeps the last of two equal keys, reads numbers and lists as strings, and stops after the first object.
    Each of these changes a count, and the record is parsed strictly. So is a record that contains a list or a
    backslash: escaped quotes could make up for the quotes that a number read as a string does not have.
    """
    quotes, keys, objects = F.lit(0), F.lit(0), F.lit(1)
    for path, prop in _fields(contract.topic.events["properties"]):
        present = _field(contract, path).isNotNull()
        quotes = quotes + F.when(present, 4 if prop["type"] == "string" else 2).otherwise(0)
        keys = keys + F.when(present, 1).otherwise(0)
        if prop["type"] == "object":
            objects = objects + F.when(present, 1).otherwise(0)
    plain = F.expr(r"endswith(text, '}') and not contains(text, '[') and not contains(text, r'\')")
    return plain & (_count("}") == objects) & (_count(",") == keys - objects) & (_count('"') == quotes)


def _count(character: str) -> Column:
    return F.expr(f"octet_length(text) - octet_length(replace(text, '{character}', ''))")


def _fields(properties: dict[str, Any], prefix: str = "") -> list[tuple[str, dict[str, Any]]]:
    """List the fields of a JSON Schema by path, objects before their own fields."""
    fields = []
    for name, prop in properties.items():
        fields.append((prefix + name, prop))
        if prop["type"] == "object":
            fields += _fields(prop["properties"], f"{prefix}{name}.")
    return fields
