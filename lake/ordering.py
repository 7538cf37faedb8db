"""Ordering: which of several rows with the same key is kept, in Arrow, in Spark and in a MERGE condition."""

from collections.abc import Sequence
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

Order: TypeAlias = Sequence[tuple[str, str]]
"""Columns with `ascending` or `descending`; the first row in this order is kept."""


def first_per_key(rows: pa.Table, key: Sequence[str], order: Order) -> pa.Table:
    """Keep, of the rows of each key, the first in the given order."""
    ordered = rows.sort_by([*((name, "ascending") for name in key), *order])
    keys = ordered.select(key).to_pylist()
    first = [number == 0 or row != keys[number - 1] for number, row in enumerate(keys)]
    return ordered.filter(pa.array(first, pa.bool_()))


def first_per_key_spark(rows: DataFrame, key: Sequence[str], order: Order) -> DataFrame:
    """Keep the same rows of a frame, however large it is; all of them, if there is no order."""
    if not order:
        return rows
    directions = {"ascending": F.asc_nulls_last, "descending": F.desc_nulls_last}
    place = F.row_number().over(Window.partitionBy(*key).orderBy(*(directions[way](name) for name, way in order)))
    return rows.withColumn("place", place).filter("place = 1").drop("place")


def precedes(order: Order) -> str:
    """Say in SQL that row s comes before row t in the given order; what is empty comes last."""
    first, *rest = order
    column, direction = first
    comes_before = f"s.{column} {'<' if direction == 'ascending' else '>'} t.{column}"
    condition = f"(s.{column} is not null and (t.{column} is null or {comes_before}))"
    return f"({condition} or (s.{column} = t.{column} and {precedes(rest)}))" if rest else condition
