"""Parsing: Kafka records -> typed events, with every rule that each record breaks.

One projection parses and validates all topics of a micro-batch. Nearly every record is clean, so clean records take a
cheap path: Spark's JSON parser, null checks, and counts of a few characters which prove that the parser ignored
nothing (docs/decisions/0004). Only records whose counts do not match are parsed strictly, as a variant. Which rules a
record breaks: breaches.py.
"""

from collections.abc import Callable
from functools import cache

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from streaming.landing.breaches import broken_rules, is_clean
from streaming.landing.contract import CORRUPT, Contract, contracts

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
    broken = F.when(F.col("clean"), F.array().cast("array<string>")).otherwise(_per_topic(broken_rules))
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
                value = contract.field(str(column.source)).cast(column.type)
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
    clean = F.coalesce(_per_topic(is_clean), F.lit(False))
    event_time = F.coalesce(*(c.field("event_time") for c in contracts()))
    return [
        clean.alias("clean"),
        # In the same projection: Spark computes `clean` once, and another projection would copy every row again.
        F.when(~clean, F.expr("try_parse_json(text)")).alias("variant"),
        F.coalesce(*(c.field("event_id") for c in contracts())).alias("event_id"),
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


def _allowance(contract: Contract) -> Column:
    """Return the topic's allowance in milliseconds; null for a topic whose events are never late."""
    allowance = contract.topic.lateness.allowance
    return F.lit(None).cast("bigint") if allowance is None else F.lit(int(allowance.total_seconds() * 1000))
