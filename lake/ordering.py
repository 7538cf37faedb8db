"""Ordering: which of several rows with the same key is kept, in Arrow, in Spark and in a MERGE condition."""

from collections.abc import Sequence
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

Order: TypeAlias = Sequence[tuple[str, str]]
"""Columns with `ascending` or `descending`; the first row in this order is kept."""


def first_per_key(rows: pa.Table, key: Sequence[str], order: Order) -> pa.Table:
    """Keep the first row of each key in the given order."""
    ordered = rows.sort_by([*((name, "ascending") for name in key), *order])
    keys = ordered.select(key).to_pylist()
    first = [number == 0 or row != keys[number - 1] for number, row in enumerate(keys)]
    return ordered.filter(pa.array(first, pa.bool_()))


def first_per_key_spark(rows: DataFrame, key: Sequence[str], order: Order) -> DataFrame:
    """Keep the same rows as `first_per_key`, in Spark; keep all rows if there is no order."""
    if not order:
        return rows
    directions = {"ascending": F.asc_nulls_last, "descending": F.desc_nulls_last}
    position = F.row_number().over(Window.partitionBy(*key).orderBy(*(directions[way](name) for name, way in order)))
    return rows.withColumn("position", position).filter("position = 1").drop("position")


def precedes(order: Order) -> str:
    """Return the SQL condition that row `s` precedes row `t` in the given order; nulls come last."""
    first, *rest = order
    column, direction = first
    comes_before = f"s.{column} {'<' if direction == 'ascending' else '>'} t.{column}"
    condition = f"(s.{column} is not null and (t.{column} is null or {comes_before}))"
    return f"({condition} or (s.{column} = t.{column} and {precedes(rest)}))" if rest else condition
