"""Parity: two answers to the same question, row by row, over what both call final -> what is equal and what is not."""

from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from config.declarations import Table

LEFT, RIGHT = "left", "right"


@dataclass(frozen=True)
class Parity:
    """How two forms of one table compare; `differing` has a row for each key that differs, with both its rows."""

    table: str
    until: datetime | None
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


def compare(left: DataFrame, right: DataFrame, table: Table, until: datetime | None = None) -> Parity:
    """Compare two forms of a table by key, over the rows that are final before a moment, or all."""
    both = _rows(left, table, until, LEFT).join(_rows(right, table, until, RIGHT), table.key, "full_outer")
    if until and not table.final_at:
        # A row that one of them knows a later change of is not final for either.
        later = F.greatest(*(F.col(f"{side}.{table.changed_at}") for side in (LEFT, RIGHT)))
        both = both.filter(later < F.lit(until))
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
        differing = differing.localCheckpoint()  # few, and joined with much
    return Parity(table.name, until, **counts.asDict(), differing=differing)


def content_hash(rows: DataFrame, table: Table) -> str:
    """Tell the content of a table by a number that does not depend on the order of its rows."""
    return str(_rows(rows, table, None, LEFT).agg(_hash(LEFT)).collect()[0][0])


def _rows(rows: DataFrame, table: Table, until: datetime | None, side: str) -> DataFrame:
    if until and table.final_at:
        rows = rows.filter(F.expr(table.final_at) < F.lit(until))
    return rows.select(*table.key, F.struct(*(F.col(f"`{name}`") for name in table.stored)).alias(side))


def _hash(side: str) -> Column:
    # Added up, not xor-ed: of two equal rows neither is lost.
    total = f"sum(if(`{side}` is null, null, cast(xxhash64(`{side}`) as decimal(38,0))))"
    return F.expr(f"lower(hex(cast(coalesce(pmod({total}, 9223372036854775807BD), 0) as bigint)))")
