"""Parsed records: each topic in a table of its own, parsed again by other code; copies of an event are found once."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from gold import records_of
from handmade import Lake
from pyspark.sql import DataFrame, SparkSession

from batch import fence, records
from batch.segments import SEGMENT
from config.declarations import Column
from lake.location import warehouse
from local.simulator.plan import Plan
from streaming.landing.contract import contracts

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
DDL = (
    "topic string, partition int, offset bigint, arrival_time timestamp, event_id string, event_time timestamp,"
    " event_date date, rules array<string>, content_hash bigint, dedup_hash bigint, valid boolean, segment date"
)


def parsed(spark: SparkSession, *some: dict[str, Any]) -> DataFrame:
    """Make parsed clicks, with the next offset each."""
    rows = [
        {"topic": "clicks", "partition": 0, "offset": offset, "arrival_time": NOON, "event_id": "e", "event_time": NOON}
        | {"event_date": NOON.date(), "rules": [], "content_hash": 1, "dedup_hash": 1, "valid": True}
        | {SEGMENT: NOON.date()}
        | each
        for offset, each in enumerate(some)
    ]
    return spark.createDataFrame([tuple(row[name] for name in DDL_NAMES) for row in rows], DDL)


DDL_NAMES = [column.split()[0] for column in DDL.split(", ")]
BROKEN = {"rules": ["not_json"], "valid": False, "event_id": None, "event_time": None, "event_date": None}


def test_further_copies_are_duplicates_and_other_content_reuses_the_id(spark: SparkSession) -> None:
    rows = parsed(
        spark,
        {},
        {"event_time": NOON + timedelta(minutes=59)},  # the same hour
        {"content_hash": 2},
        {"event_time": NOON + timedelta(hours=1)},  # another event
        {"event_id": "other"},  # by chance of the same hash
        BROKEN,
    )
    aside = records.exceptions(rows, 60)
    assert [row.offset for row in records.duplicates(aside).collect()] == [1]
    quarantined = {row.offset: row for row in records.quarantined(rows, aside).collect()}
    assert {offset: row.rules for offset, row in quarantined.items()} == {2: ["event_id_reused"], 5: ["not_json"]}
    assert quarantined[2].duplicate_of.offset == 0
    assert quarantined[5].duplicate_of is None


def test_a_column_of_an_event_with_the_name_of_one_of_every_topic_is_kept_apart(spark: SparkSession) -> None:
    contract = contracts()[0]
    own = Column.model_validate({"type": "boolean", "description": "whether it counts", "from": "valid"})
    table = contract.table.model_copy(update={"columns": {**contract.table.columns, "valid": own}})
    names = {name: stored for name, (stored, _) in records.stored_columns(replace(contract, table=table)).items()}
    assert names["valid"] == "event_valid"
    assert all(name == stored for name, stored in names.items() if name != "valid")


def test_each_topic_is_parsed_into_its_own_columns_and_only_when_it_is_new(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = warehouse(lake.settings) / "batch" / "judged"
    (older / "_delta_log" / "0.json").write("{}")
    log = records_of(Plan(seed=3, events=300))
    lake.land(log[:250])

    def parse(version: str) -> dict[str, tuple[int, int]]:
        """Parse; return the rows and the commits of each topic."""
        archive, _ = fence.take(lake.spark, lake.settings)
        records.parse_new(archive, lake.settings, version, full=False)
        found = {}
        for topic in (each.topic.name for each in contracts()):
            rows = records.parsed(lake.spark, lake.settings, topic)
            table = (records.folder(lake.settings) / topic).table()
            found[topic] = rows.count(), table.version()
            assert rows.select("partition", "offset").distinct().count() == rows.count()
        return found

    first = parse("code")
    assert sum(rows for rows, _ in first.values()) == 250
    assert not older.exists()
    orders = records.parsed(lake.spark, lake.settings, "orders")
    assert "merchant_id" in orders.columns
    assert "dwell_ms" not in orders.columns
    lake.land(log[250:])
    # A run that ends after one topic: the next one parses the others, and this one not again.
    topics = iter(contracts()[:1])
    with monkeypatch.context() as broken:
        broken.setattr(records, "contracts", lambda: topics)
        archive, _ = fence.take(lake.spark, lake.settings)
        records.parse_new(archive, lake.settings, "code", full=False)
    assert sum(rows for rows, _ in parse("code").values()) == len(log)
    # Other code: all of it again, in place of what was there.
    assert sum(rows for rows, _ in parse("other code").values()) == len(log)
    days = {row[0] for row in records.parsed(lake.spark, lake.settings, "clicks").select(SEGMENT).distinct().collect()}
    assert date(2026, 1, 5) in days
