"""Tables: each version in a versioned table ends where the next begins, in any order of the changes."""

from datetime import timedelta

from handmade import NOON, Lake, Log, change
from pyspark.sql import SparkSession

from config.declarations import table_named
from config.settings import Settings
from lake import generations
from lake.location import table_location
from lake.tables import create_missing, read
from lake.views import table_views as views


def test_versions_follow_event_time_not_arrival(lake: Lake, log: Log) -> None:
    log.send(change("c1", NOON, "bronze", op="c"), topic="users")
    log.send(change("c3", NOON + timedelta(hours=2), "gold"), topic="users")
    lake.land(log.records)
    log.send(change("c2", NOON + timedelta(hours=1), "silver"), topic="users", arrival=NOON + timedelta(hours=3))
    lake.land(log.records[2:])
    versions = read(lake.spark, "silver.users", lake.settings).orderBy("valid_from").collect()
    assert [row.tier for row in versions] == ["bronze", "silver", "gold"]
    assert [row.valid_to for row in versions] == [versions[1].valid_from, versions[2].valid_from, None]


def test_a_table_whose_creation_was_killed_is_not_there_for_readers_and_is_created_after_all(
    spark: SparkSession, fresh_home: Settings
) -> None:
    name = "silver.clicks"
    create_missing([name, generations.TABLE], fresh_home)
    alone = views(fresh_home)[name]
    half = table_location(fresh_home, name, 2) / "_delta_log"
    (half / f"{0:020}.json#1").write("{}")  # as deltalake leaves it: written, but not yet renamed
    assert views(fresh_home)[name] == alone
    create_missing([name], fresh_home, 2)
    assert generations.built(fresh_home, table_named(name)) == [1, 2]
