"""Names and times that a user gives: checked before anything is written."""

import keyword
import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from config.errors import LakehouseError

# Words that SQL or Python would read as something else.
RESERVED = {
    "all",
    "and",
    "as",
    "by",
    "case",
    "date",
    "from",
    "group",
    "join",
    "on",
    "order",
    "select",
    "table",
    "where",
}


@dataclass(frozen=True)
class Interval:
    """A length of time, as Spark, DuckDB and Python write it."""

    text: str
    """In SQL: 10 minutes."""

    length: timedelta

    @property
    def python(self) -> str:
        """Write it as a Python expression."""
        number, unit = self.text.split()
        return f"timedelta({unit.removesuffix('s')}s={number})"


def check_name(name: str, taken: Collection[str]) -> None:
    """Refuse a name that is not one, or that is taken."""
    if not re.fullmatch(r"[a-z][a-z_]{1,38}[a-z]", name) or "__" in name:
        raise LakehouseError(
            f"'{name}' is not a valid name: use 3 to 40 lower-case letters and single underscores: page_views."
        )
    if name in RESERVED or keyword.iskeyword(name):
        raise LakehouseError(f"'{name}' is a keyword of SQL or Python. Choose another name.")
    if name in taken:
        raise LakehouseError(f"'{name}' exists already. Choose another name.")


def interval(option: str, text: str) -> Interval:
    """Read a length of time like '10 minutes'."""
    match = re.fullmatch(r"([1-9]\d{0,3}) (second|minute|hour|day)s?", text)
    if not match:
        raise LakehouseError(
            f"{option} is '{text}'; it should be like '10 minutes' (seconds, minutes, hours, days).",
            f"For example: {option} '1 hour'",
        )
    number, unit = int(match[1]), match[2]
    return Interval(f"{number} {unit}{'s' if number > 1 else ''}", timedelta(**{f"{unit}s": number}))


def singular(name: str) -> str:
    """Name one of several: orders -> order."""
    return name.removesuffix("s")
