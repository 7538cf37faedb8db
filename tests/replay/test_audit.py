"""The gate of a replay: its landed tables have as many rows as its ledger counts."""

import deltalake
import pyarrow as pa
import pytest
from event_log import event
from handmade import Lake, Log
from pyspark.sql import SparkSession

from config.settings import Settings
from lake import ledger
from replay import certificate
from replay.manifest import Replay


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
