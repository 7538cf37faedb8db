"""Sides: a generation has read what its landing recorded; one that started later has not read what came before."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from config.declarations import table_named
from config.settings import Settings
from expectations.parity.sides import Side, generation_side
from lake import generations, ledger
from lake.generations import FIRST, TableGenerations
from lake.tables import append_once, arrow_schema

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
SPARK = cast("SparkSession", None)  # nothing is read


def landed(settings: Settings, generation: int, *ranges: tuple[int, int]) -> None:
    """Record a batch for each range of offsets, an hour after the one before."""
    for batch, (low, high) in enumerate(ranges):
        columns = table_named(ledger.TABLE).stored
        row: dict[str, Any] = {name: "" if column.type == "string" else 0 for name, column in columns.items()}
        row |= {name: NOON for name in row if name.endswith("_time")}
        row |= {"job": "landing", "generation": generation, "epoch": 1, "batch": batch, "topic": "clicks"}
        row |= {"from_offset": low, "to_offset": high, "recorded_at": NOON + timedelta(hours=batch)}
        rows = pa.Table.from_pylist([row], arrow_schema(table_named(ledger.TABLE)))
        append_once(ledger.folder(settings, "landing", generation), rows, f"g{generation}", batch)


def side(settings: Settings, generation: int, starting: str = "earliest", *, replay: bool) -> Side:
    tables = {table.name: generation for table in generations.replayable_tables()}
    target = TableGenerations(tables, generation if replay else None, starting=starting)
    return generation_side(SPARK, settings, target, "")


@pytest.mark.parametrize(
    ("generation", "starting", "replay", "low"),
    [
        (FIRST, "earliest", False, 0),
        (2, "earliest", True, 0),
        (2, '{"clicks": {"0": 5}}', True, 5),
        (2, "earliest", False, 5),
    ],
)
def test_it_has_read_from_its_start_to_the_last_record_in_the_ledger(
    fresh_home: Settings, generation: int, starting: str, replay: bool, low: int
) -> None:
    landed(fresh_home, generation, (5, 20), (20, 30))
    found = side(fresh_home, generation, starting, replay=replay)
    assert found.ranges == {("clicks", 0): (low, 30)}


def test_the_ledger_knows_what_had_landed_at_an_earlier_time(fresh_home: Settings) -> None:
    landed(fresh_home, FIRST, (0, 20), (20, 30))
    assert ledger.landed_up_to(fresh_home, "landing", FIRST, by=NOON) == {("clicks", 0): 20}
    assert ledger.landed_up_to(fresh_home, "landing", FIRST) == {("clicks", 0): 30}
