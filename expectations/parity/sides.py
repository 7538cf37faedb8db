"""Sides: what is compared, and which records of the log each side has read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import reduce
from itertools import pairwise
from operator import or_

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from config.declarations import table_named
from config.settings import Settings
from lake import batch_log, ledger
from lake.generations import FIRST, TableGenerations
from lake.tables import read
from streaming.job import Job

Ranges = Mapping[tuple[str, int], tuple[int, int]]
"""By topic and partition: the first offset that was read, and the first one that was not."""

Step = tuple[str, int, int, int, int]
"""Topic, partition, the first offset, the one after the last, and the rank of the batch in the order of landing."""

LANDED = "silver.late"
"""A table that landing writes: its generation is that of every landed table."""


@dataclass(frozen=True)
class Side:
    """One side of a comparison: its name, its tables, and the time before which its rows are final."""

    name: str
    frame: Callable[[str], DataFrame]
    tables: frozenset[str]
    closed_until: Callable[[Job], datetime | None]
    """Return the time before which the rows of a job's table are final."""

    ranges: Ranges = field(default_factory=dict)
    """The records of the log that it has read."""

    requested_until: Callable[[Job], datetime | None] = lambda _: None
    """Return the time before which `stream run --close` made the rows of a job's table final."""

    steps: Sequence[Step] = ()
    """The batches in which its records landed, if it looked versions up while they did; none if it knew all of them."""

    generation: int | None = None
    """The generation of silver and gold, if the side is one."""

    target: TableGenerations | None = None
    run: str | None = None
    """The run of the batch layer, if the side is one."""


def generation_side(spark: SparkSession, settings: Settings, target: TableGenerations, name: str) -> Side:
    """Build a side from the tables of a generation: the served ones, or those of a replay."""

    def requested_until(job: Job) -> datetime | None:
        request = batch_log.last_request(settings, job.name, target.of_job(job))
        return request["closed_until"] if request else None

    return Side(
        name=name,
        frame=lambda table: read(spark, table, settings, target.of_table(table)),
        tables=frozenset(target.generation_by_table),
        closed_until=lambda job: batch_log.closed_until(settings, job.name, target.of_job(job)),
        ranges=_landed_ranges(settings, target),
        requested_until=requested_until,
        steps=_steps(settings, target.of_table(LANDED)),
        generation=target.of_table(LANDED),
        target=target,
    )


def on_day(side: Side, day: str) -> Side:
    """Restrict a side to the rows of gold that become final on a day."""

    def frame(name: str) -> DataFrame:
        table = table_named(name)
        time = table.final_at or table.changed_at
        rows = side.frame(name)
        return rows.filter(F.to_date(F.expr(time)) == F.lit(day).cast("date")) if time else rows

    return replace(side, frame=frame)


def in_common(left: Side, right: Side, topic: str) -> Column:
    """Return the condition that both sides have read a record of a topic."""
    return _within(
        {partition: _overlap(left, right, partition) for partition in left.ranges.keys() & right.ranges.keys()}, topic
    )


def read_by(side: Side, topic: str) -> Column:
    """Return the condition that a side has read a record of a topic."""
    return _within(side.ranges, topic)


def _overlap(left: Side, right: Side, partition: tuple[str, int]) -> tuple[int, int]:
    (left_low, left_high), (right_low, right_high) = left.ranges[partition], right.ranges[partition]
    return max(left_low, right_low), min(left_high, right_high)


def _within(ranges: Ranges, topic: str) -> Column:
    offset, partition = F.col("offset"), F.col("partition")
    parts = [
        (partition == number) & (offset >= low) & (offset < high)
        for (name, number), (low, high) in sorted(ranges.items())
        if name == topic
    ]
    return reduce(or_, parts, F.lit(False))


def _landed_ranges(settings: Settings, target: TableGenerations) -> Ranges:
    """Return the records that a generation has landed.

    Everything from offset 0 on, unless it is a replay that started later. Once that is served, only the ledger has its
    start.
    """
    generation = target.of_table(LANDED)
    ends = ledger.landed_up_to(settings, ledger.LANDING, generation)
    begins = ledger.landed_from(settings, ledger.LANDING, generation)
    whole = generation == FIRST or (generation == target.replay and target.starting == "earliest")
    return {partition: (0 if whole else begins[partition], end) for partition, end in ends.items()}


def _steps(settings: Settings, generation: int) -> list[Step]:
    """Return the batches of a generation of which it is known when their records landed.

    These are all but the batches of which records were redriven, which came into silver later, and the first one after
    each reset, as the batch that the reset broke off can have landed some of its records.
    """
    every = [
        row for row in ledger.entries(settings, [ledger.LANDING, ledger.REDRIVE]) if row["generation"] == generation
    ]
    entries = [row for row in every if row["job"] == ledger.LANDING]
    batches = sorted({(row["epoch"], row["batch"]) for row in entries})
    ranks = {batch: rank for rank, batch in enumerate(batches)}
    unsure = {batch for before, batch in pairwise(batches) if before[0] != batch[0]}
    redriven = {(row["topic"], row["partition"], row["from_offset"]) for row in every if row["job"] == ledger.REDRIVE}
    return [
        (row["topic"], row["partition"], row["from_offset"], row["to_offset"], ranks[row["epoch"], row["batch"]])
        for row in entries
        if (row["epoch"], row["batch"]) not in unsure
        and (row["topic"], row["partition"], row["from_offset"]) not in redriven
    ]
