"""Import of a home: what is landed from the archive of a lost log equals what was landed from the log itself."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from gold import catch_up, records_of
from handmade import NOON, Lake

from config.errors import LakehouseError
from config.kafka import end_offsets, let_producers_stamp
from config.settings import Settings
from config.terminal import Terminal
from lake.location import table_location
from lake.tables import append_once, read_arrow
from local.broker import Broker
from local.simulator.plan import Plan
from operations.imports import commands
from operations.imports import home as homes
from operations.imports import send as sending
from operations.imports.home import OldHome, check_new_log, ensure_nothing_landed, send_home
from operations.imports.position import read_position
from streaming.job import job_named
from streaming.landing.job import job as landing
from streaming.runner import Runner
from streaming.set_aside import active, set_aside

FOLLOWERS = ("clicks_enriched", "views_per_minute")
TABLES = (*landing().writes, "silver.clicks_enriched", "gold.views_per_minute")
AHEAD = datetime.now(UTC) + timedelta(hours=1)
HEADERS = [("traceparent", b"\x00\xff"), ("empty", None)]


def old_offset(offset: int) -> int:
    """Number a record as in a log with gaps, which transactions leave."""
    return 2 * offset + 7


def old_log() -> list[tuple[Any, ...]]:
    """Return a small day, and after it records of every odd kind."""
    records = records_of(Plan(seed=5, events=500, late=0.05, duplicates=0.05, malformed=0.02))
    end = max(record[2] for record in records if record[:2] == ("clicks", 3)) + 1
    odd = [
        (None, None, None, NOON),
        (b"u1", None, None, NOON),
        (b"u1", b"\xff\x00", HEADERS, NOON + timedelta(hours=1)),
        (b"u9", b"{}", None, AHEAD),  # not any more when it is landed again, some day
        (b"u9", b"{}", None, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        (b"u9", b"[]", None, NOON),
    ]
    records += [("clicks", 3, end + number, *rest) for number, rest in enumerate(odd)]
    return [(*record[:2], old_offset(record[2]), *record[3:]) for record in records]


@pytest.fixture
def new_home(settings: Settings, tmp_path: Path) -> Iterator[Settings]:
    """A new home with a running broker of its own."""
    home = settings.at(tmp_path / "new")
    broker = Broker(home)
    try:
        broker.start()
        yield home
    finally:
        broker.stop()


def contents(home: Settings, convert: Any, skipped: int) -> dict[str, Counter[str]]:
    """Return the rows of each table, with the offsets of the old log and without one that was set aside."""
    found = {}
    for name in TABLES:
        rows = []
        for row in read_arrow(table_location(home, name)).to_pylist():
            for place in (row, row.get("duplicate_of") or {}):
                if "offset" in place:
                    place["offset"] = convert(place["offset"])
            row.pop("timestamp_ms", None)
            if "value" in row:
                row["value"] = row["value"] or None
            if "headers" in row:
                row["headers"] = [(each["key"], each["value"] or None) for each in row["headers"] or ()]
            if (row.get("topic"), row.get("partition"), row.get("offset")) != ("clicks", 3, skipped):
                rows.append(repr(sorted(row.items())))
        found[name] = Counter(rows)
    return found


def test_what_is_landed_again_equals_what_was_landed(
    lake: Lake, new_home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = old_log()
    lake.land(records[: len(records) // 2])
    lake.land(records[len(records) // 2 :])
    catch_up(lake, FOLLOWERS)
    last = records[-1][2]
    set_aside(lake.settings, [("clicks", 3, last)], "overflow")
    old = OldHome(new_home, lake.settings.home)
    assert (old.position.records, sum(part.without_arrival for part in old.partitions)) == (len(records), 2)

    monkeypatch.setattr(homes, "OFFSETS_PER_CHUNK", 50)
    monkeypatch.setattr(sending, "BATCH", 120)
    let_producers_stamp(new_home)
    check_new_log(new_home, old)
    ensure_nothing_landed(new_home)

    def killed(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        send_home(new_home, old, old.position, killed)
    position = read_position(new_home, old.id)
    assert position and position.sent == 120
    with pytest.raises(LakehouseError, match="is not empty"):
        check_new_log(new_home, old)
    send_home(new_home, OldHome(new_home, lake.settings.home), position, lambda _: None)
    done = read_position(new_home, old.id)
    assert done and done.finished
    assert sum(end_offsets(new_home, landing().topics).values()) == len(records)

    Runner(new_home, lake.spark).run([landing(), *map(job_named, FOLLOWERS)], until_caught_up=True)
    before = contents(lake.settings, lambda offset: offset, last)
    assert contents(new_home, old_offset, last) == before
    assert all(before[name] for name in ("silver.late", "silver.duplicates", "silver.quarantine", TABLES[-1]))
    (aside,) = active(new_home)
    assert (old_offset(aside.offset), aside.reason) == (last, "overflow")
    refused = read_arrow(table_location(new_home, "silver.quarantine")).to_pylist()
    assert [row["rules"] for row in refused if old_offset(row["offset"]) == last] == [["set_aside"]]
    with pytest.raises(LakehouseError, match="has landed records already"):
        ensure_nothing_landed(new_home)


@pytest.fixture
def archive(settings: Settings, tmp_path: Path) -> Settings:
    """A home that has an archive and nothing else, in two commits that overlap."""
    home = settings.at(tmp_path / "old")
    for commit, offsets in enumerate(([9, 3, 40], [1, 200, 41, 4])):
        rows = [
            {"topic": topic, "partition": partition, "offset": offset, "key": b"u1", "value": b"%d" % offset}
            | dict[str, Any](arrival_time=None if offset == 4 else NOON, timestamp_ms=1 if offset == 4 else None)
            for topic in ("orders", "clicks")
            for partition in (1, 0)
            for offset in offsets
        ]
        schema = pa.schema(
            [
                *((name, pa.int32() if name == "partition" else pa.string()) for name in ("topic", "partition")),
                *((name, pa.int64()) for name in ("offset", "timestamp_ms")),
                *((name, pa.binary()) for name in ("key", "value")),
                ("arrival_time", pa.timestamp("us", "UTC")),
                ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
            ]
        )
        append_once(table_location(home, "bronze.events"), pa.Table.from_pylist(rows, schema), "test", commit)
    return home


def test_records_are_in_the_order_of_the_log_from_any_position(
    settings: Settings, archive: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(homes, "OFFSETS_PER_CHUNK", 10)
    old = OldHome(settings, archive.home)
    found = list(old.messages(0))
    order = [(message.topic, message.partition, offset) for message, offset in found]
    assert order == sorted(order)
    assert len(order) == old.position.records == 28
    assert {message.timestamp_ms for message, offset in found if offset != 4} == {NOON.timestamp() * 1000}
    assert {message.timestamp_ms for message, offset in found if offset == 4} == {0}
    assert all(list(old.messages(skipped)) == found[skipped:] for skipped in range(0, 30, 4))


def test_the_dry_run_shows_what_the_archive_has(
    archive: Settings, fresh_home: Settings, console: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "console", console)
    commands.import_home(archive.home, dry_run=True)
    shown = console.export_text()
    assert "28 records would be sent." in shown
    (orders,) = [line for line in shown.splitlines() if "orders" in line]
    assert [word for word in orders.split() if word[0].isdigit()] == [
        "14",
        *["2026-01-05", "12:00:00"] * 2,
        "2",
    ]
    with pytest.raises(LakehouseError, match="has never been started"):
        commands.import_home(archive.home)
    assert read_position(fresh_home, OldHome(fresh_home, archive.home).id) is None


def test_a_folder_without_an_archive_is_refused(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(LakehouseError, match="has no archive"):
        OldHome(settings, tmp_path)
    with pytest.raises(LakehouseError, match="would be imported into"):
        OldHome(settings, settings.home)
