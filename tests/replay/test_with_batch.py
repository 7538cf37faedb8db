"""Replay and the batch layer: equal row by row; and a row that is wrong is found. Last, as it spoils what was built."""

from datetime import datetime
from typing import Any

from handmade import Lake
from pyspark.sql import functions as F

from batch.comparison_side import batch_side
from config.declarations import table_named
from expectations.parity.comparison import comparable_tables, compared, generation_side
from lake.location import table_location
from lake.tables import read
from lake.views import delta
from replay.manifest import Replay

VIEWS = "gold.views_per_minute"


def test_it_equals_the_batch_layer_row_by_row(against: dict[str, Any]) -> None:
    found = against["the batch layer"]
    assert set(found) == {table.name for table in comparable_tables()}
    assert {name: each["by_reason"] for name, each in found.items() if each["by_reason"]} == {}
    assert all(each["equal"] and each["hash"] == each["hash_of_other"] for each in found.values())


def test_a_wrong_row_in_any_table_is_found_without_a_reason(lake: Lake, built: Replay) -> None:
    changes = {
        VIEWS: "views",
        "gold.trending": "views",
        "gold.revenue_per_hour": "revenue_cents",
        "gold.sessions": "pages",
        "gold.order_payments": "amount_cents",
        "gold.conversions": "amount_cents",
        "gold.order_status": "changes",
    }
    for name, column in changes.items():
        _spoil(lake, name, built.generation, {column: f"{column} + 1000"})
    _spoil(lake, "gold.ad_clicks", built.generation, {"product_id": "'nobody made it'"})
    left = batch_side(lake.spark, lake.settings)
    assert left
    right = generation_side(lake.spark, lake.settings, built.target, "replayed")
    found = compared(lake.spark, lake.settings, left, right)
    assert {name: each.by_reason for name, each in found.items()} == {
        table.name: {"unexplained": 1} for table in comparable_tables()
    }


def _spoil(lake: Lake, name: str, number: int, updates: dict[str, str]) -> None:
    """Change one row that is long final."""
    table = table_named(name)
    first = read(lake.spark, name, lake.settings, number).orderBy(F.expr(table.final_at or "status_time")).first()
    assert first
    which = " and ".join(f"{key} = {_literal(first[key])}" for key in table.key)
    made = ", ".join(f"{column} = {value}" for column, value in updates.items())
    where = delta(table_location(lake.settings, table.name, number))
    changed = lake.spark.sql(f"update {where} set {made} where {which}").collect()
    assert changed[0][0] == 1


def _literal(value: Any) -> str:
    return f"timestamp'{value}'" if isinstance(value, datetime) else repr(value)
