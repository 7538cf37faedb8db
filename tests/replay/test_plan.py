"""Plans, without Spark and Kafka: what a replay reads, and what blocks it."""

from datetime import timedelta
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from handmade import NOON

from config.errors import LakehouseError
from config.settings import Settings
from lake import ledger
from lake.batch import Batch
from lake.location import Location, table_location
from lake.locks import single_writer
from replay.plan import EARLIEST, _no_longer_there, _starting, plan
from streaming.job import job_named

ENDS = {("clicks", 0): 30, ("clicks", 1): 20}


def landed(settings: Settings, number: int, low: int, high: int) -> None:
    """Record a batch of landing, an hour of event time."""
    times = {"min_event_time": NOON + timedelta(hours=number), "max_event_time": NOON + timedelta(hours=number + 1)}
    row = {"job": "landing", "generation": 1, "epoch": 1, "batch": number, "topic": "clicks", "partition": 0}
    row |= {"from_offset": low, "to_offset": high, "bytes": 100, **times}
    common: dict[str, Any] = {"rows": None, "job": "landing", "epoch": 1, "generation": 1, "settings": settings}
    ledger.record_entry([row], Batch(**common, id=number))


def test_from_the_archive_it_reads_all_that_landing_has_recorded(fresh_home: Settings) -> None:
    landed(fresh_home, 0, 5, 20)
    landed(fresh_home, 1, 20, 30)
    found = plan(fresh_home, [job_named("landing")], "bronze", EARLIEST)
    assert (found.ranges, found.records, found.bytes) == ({("clicks", 0): (0, 30)}, 30, 200)
    assert found.span == (NOON, NOON + timedelta(hours=2))
    assert (found.seconds, found.blockers) == (None, [])  # landing has reported no rate yet
    with pytest.raises(LakehouseError, match="from bronze starts at its first record"):
        plan(fresh_home, [job_named("landing")], "bronze", "2026-01-05T12:00:00Z")


def test_jobs_that_read_tables_need_nothing_of_the_log(fresh_home: Settings) -> None:
    found = plan(fresh_home, [job_named("sessions")], "kafka", EARLIEST)
    assert (found.ranges, found.records, found.blockers) == ({}, 0, [])
    assert found.replay.tables == ["gold.sessions"]


def test_another_replay_and_a_full_disk_block_it(fresh_home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    deltalake.write_deltalake(str(table_location(fresh_home, "gold.sessions")), pa.table({"events": [1]}))
    monkeypatch.setattr(Location, "free", lambda _: 10)
    with single_writer(fresh_home, ["replay"]):
        found = plan(fresh_home, [job_named("sessions")], "kafka", EARLIEST)
    assert found.disk_needed > found.disk_free == 10
    disk, other = found.blockers
    assert "GiB of disk" in disk[0] and "replay drop" in disk[1]
    assert "Another replay runs in process" in other[0] and "kill " in other[1]


@pytest.mark.parametrize(
    ("since", "starts"),
    [
        (EARLIEST, {("clicks", 0): 0, ("clicks", 1): 0}),
        ('{"clicks": {"0": 7}}', {("clicks", 0): 7, ("clicks", 1): 0}),
        ('{"orders": {"0": 7}}', {("clicks", 0): 0, ("clicks", 1): 0}),
    ],
)
def test_it_starts_at_the_offsets_given(fresh_home: Settings, since: str, starts: dict[tuple[str, int], int]) -> None:
    assert _starting(fresh_home, since, ENDS) == starts


@pytest.mark.parametrize("since", ["yesterday", "{", '{"clicks": 7}', '{"clicks": {"0": "seven"}}'])
def test_a_start_that_is_neither_time_nor_offsets_is_refused(fresh_home: Settings, since: str) -> None:
    with pytest.raises(LakehouseError, match="--from") as error:
        _starting(fresh_home, since, ENDS)
    assert error.value.hint.startswith("Like: ")


def test_offsets_that_kafka_has_deleted_are_named() -> None:
    low = {("clicks", 0): 0, ("clicks", 1): 12}
    assert _no_longer_there(low, {("clicks", 0): 1_200, ("clicks", 1): 12}) == "clicks/0 0–1,199"
    assert _no_longer_there(low, {("clicks", 0): 0, ("clicks", 1): 5}) == ""
