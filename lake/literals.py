"""Literals: values of a table -> SQL for deltalake's queries and MERGE conditions, quoted by their type."""

from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Any


def literal(value: Any) -> str:
    """Write a value as SQL; a type that has no exact form is an error, as it could match other rows."""
    match value:
        case None:
            return "null"
        case bool() | int():
            return str(value).lower()
        case str():
            return "'" + value.replace("'", "''") + "'"
        case datetime():
            moment = value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            return f"arrow_cast('{moment}', 'Timestamp(Microsecond, Some(\"UTC\"))')"
        case date():
            return f"'{value}'"
    raise TypeError(f"{type(value).__name__} has no literal: {value!r}")


def one_of(column: str, values: Iterable[Any]) -> str:
    """Write the condition that a column has one of some values; null matches null."""
    found = set(values)
    among = f"{column} in ({', '.join(sorted(map(literal, found - {None})))})" if found - {None} else "false"
    return f"({among} or {column} is null)" if None in found else among
