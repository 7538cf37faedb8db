"""Contracts: each landed topic with its schema, its table and its rules, and how a parsed record names its fields."""

from dataclasses import dataclass
from functools import cache

from pyspark.sql import Column
from pyspark.sql import functions as F

from config.declarations import Table, Topic, landed_tables, topics
from config.rules import Rule, rules

CORRUPT = "_corrupt"
"""The field of a parsed value that holds the text, if the parser could not read all of it."""


@dataclass(frozen=True)
class Contract:
    """A topic with its event schema, the table its events land in, and the rules that quarantine an event."""

    topic: Topic
    table: Table
    rules: tuple[Rule, ...]

    def field(self, path: str) -> Column:
        """Select a field of the parsed value, which has the name of its topic."""
        return F.col(f"`{self.topic.name}`.{path}")


@cache
def contracts() -> tuple[Contract, ...]:
    """Return the contracts of all landed topics."""
    return tuple(
        Contract(topics()[str(table.topic)], table, tuple(r for r in rules(table.name) if r.severity == "quarantine"))
        for table in landed_tables()
    )
