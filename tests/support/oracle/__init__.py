"""Oracle: the raw records of the log -> what silver and gold must hold, computed in DuckDB from the contracts alone.

It shares nothing with the project: a mistake in the project's constants, rules or readings cannot hide in both.

    >>> Oracle(from_bronze(warehouse / "bronze/events/g1")).table("gold.sessions")
"""

from oracle.answers import Oracle
from oracle.logs import from_bronze, from_kafka, from_rows

__all__ = ["Oracle", "from_bronze", "from_kafka", "from_rows"]
