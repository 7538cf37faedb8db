"""Audit of a replay: rules see its tables and what it has read, and its landed tables have what its ledger counts."""

from typing import Any

import deltalake
import pyarrow as pa
import pytest
from event_log import event
from handmade import NOON, Lake, Log
from pyspark.sql import SparkSession

from config.declarations import table_named
from config.settings import Settings
from lake import ledger
from lake.location import table_location
from lake.tables import append_once, arrow_schema, create_missing
from replay import certificate
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


@pytest.fixture
def lake(spark: SparkSession, fresh_home: Settings) -> Lake:
    """Empty tables, not those that the other tests of this folder share."""
    return Lake(spark, fresh_home)


def test_a_count_of_its_ledger_that_its_tables_do_not_have_is_found_when_it_is_verified(
    lake: Lake, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificate, "_found", lambda *_: {"against": {}})  # rows are compared in other tests
    monkeypatch.setattr(certificate, "save", lambda *_: None)
    for number in range(4):
        log.send(event("page_view", f"view {number}", f"12:0{number}"))
    lake.land(log.records)
    generations = dict.fromkeys(("silver.clicks", "silver.late"), 1)
    replay = Replay(1, [], "bronze", "earliest", {}, state="built", generation_by_table=generations)
    assert certificate.verify(lake.spark, lake.settings, replay, lambda _: None).failures == []

    table = ledger.folder(lake.settings, "landing", 1).table()
    rows = table.to_pyarrow_table().to_pylist()
    rows[0] |= {"silver": rows[0]["silver"] - 1, "duplicates": rows[0]["duplicates"] + 1}
    deltalake.write_deltalake(table, pa.Table.from_pylist(rows, table.to_pyarrow_dataset().schema), mode="overwrite")
    (found,) = certificate.verify(lake.spark, lake.settings, replay, lambda _: None).failures
    assert (found["table"], found["rule"], found["rows"]) == ("silver.clicks", "as_the_ledger_says", 1)
    assert found["look"] == "lakehouse replay drop 1   (then: lakehouse replay run)"
