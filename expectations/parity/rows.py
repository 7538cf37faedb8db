"""Row comparison: two sides of one table, over the rows that are final in both -> equal and differing rows."""

from dataclasses import dataclass
from datetime import datetime

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

    @property
    def rows(self) -> int:
        """Count the keys that differ."""
        return self.different + self.left_only + self.right_only


def compare(left: DataFrame, right: DataFrame, table: Table, closed_until: datetime | None = None) -> Parity:
    """Compare two sides of a table by key, over the rows that are final before `closed_until`, or all rows."""
    sides = (_rows(left, table, closed_until, LEFT), _rows(right, table, closed_until, RIGHT))
    both = sides[0].join(sides[1], table.key, "full_outer")
    if closed_until and not table.final_at:
        # A row with a later change on one side is not final on either.
        later = F.greatest(*(F.col(f"{side}.{table.changed_at}") for side in (LEFT, RIGHT)))
        both = both.filter(later < F.lit(closed_until))
    has = {side: F.col(side).isNotNull() for side in (LEFT, RIGHT)}
    same = F.col(LEFT).eqNullSafe(F.col(RIGHT))
    counts = both.agg(
        F.count_if(same).alias("equal"),
        F.count_if(has[LEFT] & has[RIGHT] & ~same).alias("different"),
        F.count_if(~has[RIGHT]).alias("left_only"),
        F.count_if(~has[LEFT]).alias("right_only"),
        *(_hash(side).alias(f"{side}_hash") for side in (LEFT, RIGHT)),
    ).collect()[0]
    differing = both.filter(~same)
    if counts.different or counts.left_only or counts.right_only:
        differing = differing.localCheckpoint()  # few rows, joined several times
    return Parity(table.name, closed_until, **counts.asDict(), differing=differing)


def content_hash(rows: DataFrame, table: Table) -> str:
    """Hash the content of a table, independent of the order of its rows."""
    return str(_rows(rows, table, None, LEFT).agg(_hash(LEFT)).collect()[0][0])


def _rows(rows: DataFrame, table: Table, closed_until: datetime | None, side: str) -> DataFrame:
    if closed_until and table.final_at:
        rows = rows.filter(F.expr(table.final_at) < F.lit(closed_until))
    return rows.select(*table.key, F.struct(*(F.col(f"`{name}`") for name in table.stored)).alias(side))


def _hash(side: str) -> Column:
    # A sum, not xor: two equal rows would cancel out.
    total = f"sum(if(`{side}` is null, null, cast(xxhash64(`{side}`) as decimal(38,0))))"
    return F.expr(f"lower(hex(cast(coalesce(pmod({total}, 9223372036854775807BD), 0) as bigint)))")
