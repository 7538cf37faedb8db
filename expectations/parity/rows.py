"""Row comparison: two sides of one table, over the rows that are final in both -> equal and differing rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from config.declarations import Table

LEFT, RIGHT = "left", "right"


@dataclass(frozen=True)
class Parity:
    """The comparison of two sides of a table; `differing` has one row per differing key, with both its rows."""

    table: str
    closed_until: datetime | None
    equal: int
    different: int
    left_only: int
    right_only: int
    left_hash: str
    right_hash: str
    differing: DataFrame
    """Columns: the key, `left` and `right` (each a row or null), and `copies`, the rows of the key on one side."""

    @property
    def rows(self) -> int:
        """Count the keys that differ."""
        return self.different + self.left_only + self.right_only


def compare(
    left: DataFrame,
    right: DataFrame,
    table: Table,
    closed_until: datetime | None = None,
    *,
    key: Sequence[str] = (),
    columns: Sequence[str] = (),
) -> Parity:
    """Compare two sides of a table by key, over the rows that are final before `closed_until`, or all rows.

    A key with several rows on one side differs, even if the rows are equal.

    key, columns: those of the table by default.
    """
    key, columns = key or table.key, columns or list(table.stored)
    sides = {LEFT: _final(left, table, closed_until), RIGHT: _final(right, table, closed_until)}
    both = _matched(sides, key, columns)
    if closed_until and table.changed_at:
        # A row with a later change on one side is not final on either.
        later = F.greatest(*(F.col(f"{side}.{table.changed_at}") for side in sides))
        both = both.filter(later < F.lit(closed_until))
    has = {side: F.col(side).isNotNull() for side in sides}
    same = F.col(LEFT).eqNullSafe(F.col(RIGHT)) & (F.col("copies") == 1)
    counts = both.agg(
        F.count_if(same).alias("equal"),
        F.count_if(has[LEFT] & has[RIGHT] & ~same).alias("different"),
        F.count_if(~has[RIGHT]).alias("left_only"),
        F.count_if(~has[LEFT]).alias("right_only"),
        *(_hash(F.sum(f"{side}_hash")).alias(f"{side}_hash") for side in sides),
    ).collect()[0]
    differing = both.filter(~same).drop(*(f"{side}_hash" for side in sides))
    if counts.different or counts.left_only or counts.right_only:
        differing = differing.localCheckpoint()  # few rows, joined several times
    return Parity(table.name, closed_until, **counts.asDict(), differing=differing)


def content_hash(rows: DataFrame, table: Table) -> str:
    """Hash the content of a table, independent of the order of its rows."""
    row = _row(list(table.stored))
    return str(rows.agg(_hash(F.sum(_row_hash(row)))).collect()[0][0])


def rows_at(keys: DataFrame, rows: DataFrame, key: Sequence[str], columns: Sequence[str], name: str) -> DataFrame:
    """Add the row of a table at each of some keys, few of them, as a column; null where the table has none."""
    found = rows.join(F.broadcast(keys.select(*key)), list(key), "left_semi")
    found = found.select(*key, _row(columns).alias(name)).groupBy(*key).agg(F.max(name).alias(name))
    return keys.join(found, list(key), "left")


def _final(rows: DataFrame, table: Table, closed_until: datetime | None) -> DataFrame:
    return rows.filter(F.expr(table.final_at) < F.lit(closed_until)) if closed_until and table.final_at else rows


def _matched(sides: dict[str, DataFrame], key: Sequence[str], columns: Sequence[str]) -> DataFrame:
    """Match the rows of both sides by key, in one shuffle."""
    rows = [frame.select(*key, _row(columns).alias("row"), F.lit(side).alias("side")) for side, frame in sides.items()]
    of = {side: F.when(F.col("side") == side, F.col("row")) for side in sides}
    return (
        reduce(DataFrame.unionByName, rows)
        .groupBy(*key)
        .agg(
            *(F.max(row).alias(side) for side, row in of.items()),
            *(F.sum(F.when(row.isNotNull(), _row_hash(row))).alias(f"{side}_hash") for side, row in of.items()),
            F.greatest(*(F.count(row) for row in of.values())).alias("copies"),
        )
    )


def _row(columns: Sequence[str]) -> Column:
    return F.struct(*(F.col(f"`{name}`") for name in columns))


def _row_hash(row: Column) -> Column:
    return F.xxhash64(row).cast("decimal(38,0)")


def _hash(total: Column) -> Column:
    # A sum, not xor: two equal rows would cancel out.
    modulus = F.lit(2**63 - 1).cast("decimal(38,0)")
    return F.lower(F.hex(F.coalesce(F.pmod(total, modulus), F.lit(0)).cast("bigint")))
