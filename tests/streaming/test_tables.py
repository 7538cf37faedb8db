"""Tables: of a versioned one, each version ends where the next begins, in whatever order the changes come."""

from datetime import timedelta

from handmade import NOON, Lake, Log, change

from streaming.tables import read


def test_versions_follow_event_time_not_arrival(lake: Lake, log: Log) -> None:
    log.send(change("c1", NOON, "bronze", op="c"), topic="users")
    log.send(change("c3", NOON + timedelta(hours=2), "gold"), topic="users")
    lake.land(log.records)
    log.send(change("c2", NOON + timedelta(hours=1), "silver"), topic="users", arrival=NOON + timedelta(hours=3))
    lake.land(log.records[2:])
    versions = read(lake.spark, "silver.users", lake.settings.warehouse).orderBy("valid_from").collect()
    assert [row.tier for row in versions] == ["bronze", "silver", "gold"]
    assert [row.valid_to for row in versions] == [versions[1].valid_from, versions[2].valid_from, None]
