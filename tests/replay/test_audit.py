"""Audit of a replay: its own tables are checked, and rules refer to the other tables as the replay read them."""

from typing import Any

import pyarrow as pa
from handmade import NOON
from pyspark.sql import SparkSession

from config.declarations import table_named
from config.settings import Settings
from lake.location import table_location
from lake.tables import append_once, arrow_schema, create_missing
from replay.audit import audited
from replay.manifest import Replay

ORDERS, STATUS = "silver.orders", "gold.order_status"


def written(settings: Settings, name: str, generation: int, *rows: dict[str, Any]) -> None:
    create_missing([name], settings, generation)
    table = pa.Table.from_pylist(list(rows), arrow_schema(table_named(name)))
    append_once(table_location(settings, name, generation), table, "test", 1)


def test_rules_hold_for_its_generation_and_look_references_up_in_what_it_read(
    spark: SparkSession, fresh_home: Settings
) -> None:
    status = {"order_id": "o1", "status": "paid", "status_event_id": "s1", "status_time": NOON, "changes": 1}
    order = {"event_id": "s1", "event_time": NOON, "event_date": NOON.date(), "order_id": "o1"}
    written(fresh_home, ORDERS, 1, order)
    written(fresh_home, ORDERS, 2, order | {"event_id": "s2"})
    written(fresh_home, STATUS, 1, status | {"status": "lost"})
    written(fresh_home, STATUS, 2, status, status | {"order_id": "o2", "status_event_id": "s2"})
    numbers = {ORDERS: 1, STATUS: 2, "silver.payments": 1}  # the job of payments never ran
    replay = Replay(2, ["order_status"], "bronze", "earliest", {}, generation_by_table=numbers)
    found = audited(spark, fresh_home, replay)
    assert {each.table for each in found.findings} == {STATUS}
    assert [(each.rule, each.rows) for each in found.failures] == [("change_known", 1)]
    assert found.name == "replay g2"
