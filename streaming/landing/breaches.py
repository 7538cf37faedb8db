"""Breaches: the rules of a topic -> which of them a parsed record breaks, as SQL expressions of its columns."""

from datetime import timedelta
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from streaming.landing.contract import CORRUPT, Contract

TIME = "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{3}Z$"


def is_clean(contract: Contract) -> Column:
    """Test cheaply that a record breaks no rule; a record that fails the test may still turn out to be valid."""
    clean = _valid_utf8() & _nothing_ignored(contract) & contract.field(CORRUPT).isNull()
    for breach in (_schema_rules(contract) | _own_rules(contract)).values():
        clean = clean & ~breach
    return clean


def broken_rules(contract: Contract) -> Column:
    """List all rules a record breaks; for a record that cannot be read, only the reason why."""
    unreadable = (
        F.when(F.expr("text is null or octet_length(text) = 0"), F.lit("no_value"))
        .when(~_valid_utf8() | _half_a_surrogate_pair(), F.lit("not_utf8"))
        .when(_not_an_object(contract), F.lit("not_json"))
        .when(~_strict(), F.lit("ambiguous_json"))
    )
    types = _type_rules(contract)
    # A field of the wrong type reads as null, or as other text: it is not reported a second time.
    schema = {
        name: breach & ~types.get(f"{name.rpartition('_')[0]}_type", F.lit(False))
        for name, breach in _schema_rules(contract).items()
    }
    named = [F.when(breach, F.lit(name)) for name, breach in (types | schema | _own_rules(contract)).items()]
    return F.when(unreadable.isNotNull(), F.array(unreadable)).otherwise(F.array_compact(F.array(*named)))


def _schema_rules(contract: Contract) -> dict[str, Column]:
    """Derive rules from the topic's JSON Schema: required fields and allowed values."""
    schema = contract.topic.events
    breaches: dict[str, Column] = {}
    for name in schema["required"]:
        breaches[f"{name}_missing"] = contract.field(name).isNull()
    for clause in schema.get("allOf", []):
        applies = F.lit(True)
        for name, condition in clause["if"]["properties"].items():
            allowed = condition.get("enum") or [condition["const"]]
            applies = applies & F.coalesce(contract.field(name).isin(allowed), F.lit(False))
        for name in clause["then"]["required"]:
            rule, missing = f"{name}_missing", applies & contract.field(name).isNull()
            breaches[rule] = breaches[rule] | missing if rule in breaches else missing
    for path, prop in _fields(schema["properties"]):
        if "enum" in prop:
            breach = ~contract.field(path).isin(prop["enum"])
            breaches[f"{path.replace('.', '_')}_unknown"] = F.coalesce(breach, F.lit(False))
    return breaches


def _own_rules(contract: Contract) -> dict[str, Column]:
    """Apply the rules of the table's rule file, and the rules of every topic: its clocks and its key."""
    prefix = f"`{contract.topic.name}`."
    columns = {name: f"{prefix}{c.source}" for name, c in contract.table.columns.items() if c.source}
    breaches = {rule.name: F.expr(f"coalesce(not ({rule.sql(columns)}), false)") for rule in contract.rules}
    breaches["arrival_time_implausible"] = F.col("arrival_time").isNull()
    lateness = contract.topic.lateness
    age = f"unix_millis(arrival_time) - unix_millis({prefix}event_time)"
    breaches["event_time_ahead"] = F.expr(f"coalesce({age} < {-_milliseconds(lateness.max_clock_ahead)}, false)")
    if lateness.max_age is not None:
        breaches["event_time_too_old"] = F.expr(f"coalesce({age} > {_milliseconds(lateness.max_age)}, false)")
    if contract.topic.key:
        field = contract.field(contract.topic.key)
        breaches["key_differs"] = field.isNotNull() & ~F.col("key").cast("string").eqNullSafe(field)
    return breaches


def _milliseconds(duration: timedelta) -> int:
    return int(duration.total_seconds() * 1000)


def _type_rules(contract: Contract) -> dict[str, Column]:
    """Detect fields that are present with another type; only records off the cheap path get here."""
    breaches = {}
    for path, prop in _fields(contract.topic.events["properties"]):
        value = f"try_variant_get(variant, '$.{path}', 'variant')"
        present = F.expr(f"{value} is not null and not is_variant_null({value})")
        wrong = contract.field(path).isNull()
        if prop["type"] == "string":
            wrong = wrong | (F.expr(f"schema_of_variant({value})") != "STRING")
        if prop.get("format") == "date-time":
            wrong = wrong | ~F.expr(f"try_variant_get(variant, '$.{path}', 'string')").rlike(TIME)
        breaches[f"{path.replace('.', '_')}_type"] = present & wrong
    return breaches


def _valid_utf8() -> Column:
    return F.expr("is_valid_utf8(text)")


def _half_a_surrogate_pair() -> Column:
    r"""Test for an escape like \ud83d without its other half: no character, so all of them would read as the same."""
    without_backslashes = r"replace(text, r'\\', ' ')"
    pairs = r"r'\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}'"
    return F.expr(rf"regexp_replace({without_backslashes}, {pairs}, ' ') rlike r'\\u[dD][89a-fA-F]'")


def _not_an_object(contract: Contract) -> Column:
    event = F.col(f"`{contract.topic.name}`")
    kind = F.expr("schema_of_variant(variant)")
    unparsed = F.col("variant").isNull() & contract.field(CORRUPT).isNotNull()
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
        present = contract.field(path).isNotNull()
        quotes = quotes + F.when(present, 4 if prop["type"] == "string" else 2).otherwise(0)
        keys = keys + F.when(present, 1).otherwise(0)
        if prop["type"] == "object":
            objects = objects + F.when(present, 1).otherwise(0)
    plain = F.expr(r"endswith(text, '}') and not contains(text, '[') and not contains(text, r'\')")
    plain = plain & ~_maybe_another_time()
    return plain & (_count("}") == objects) & (_count(",") == keys - objects) & (_count('"') == quotes)


def _maybe_another_time() -> Column:
    """Test whether the text may contain a time with a small t or z, which Spark's parser reads too."""
    # Comparing bytes first: a regular expression over every record would be expensive.
    some = F.expr("""contains(text, 'z"') or contains(text, 't0') or contains(text, 't1') or contains(text, 't2')""")
    return some & F.col("text").rlike('[0-9]t[0-9]|[0-9]z"')


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
