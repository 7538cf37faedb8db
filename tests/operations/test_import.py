"""Import: files become records of a topic in event-time order, each once, also when the import is killed."""

import json
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from pyspark.sql import SparkSession
from raw_clicks import committed_since

from config.declarations import topic_named
from config.errors import LakehouseError
from config.kafka import end_offsets, python_options, servers
from config.settings import Settings
from operations.imports import check as checking
from operations.imports import send as sending
from operations.imports.check import check, refuse_too_old
from operations.imports.convert import records
from operations.imports.mapping import load_mapping
from operations.imports.position import Position, import_id, read_position
from operations.imports.send import check_topic, send, start

DAY_MS = 86_400_000
MAPPING = """
event_time: {column: time, format: "dd.MM.yyyy HH:mm:ss", timezone: Europe/Berlin}
type: {column: action, values: {view: page_view, cart: add_to_cart}}
user_id: visitor
product_id: item
dwell_ms: {column: seconds, scale: 1000}
quantity: pieces
"""
CSV = """time,action,visitor,item,seconds,pieces
05.01.2020 13:00:02,view,ada,p2,1.5,
05.01.2020 13:00:01,view,bob,"p""1",2,
05.01.2020 13:00:03,cart,ada,p2,,2
"""
ADA = {"type": "page_view", "schema_version": 1, "user_id": "ada", "product_id": "p2", "dwell_ms": 1500}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A mapping and a CSV file."""
    (tmp_path / "clicks.yaml").write_text(MAPPING)
    (tmp_path / "clicks.csv").write_text(CSV)
    return tmp_path / "clicks.yaml", tmp_path / "clicks.csv"


def converted(spark: SparkSession, mapping: Path, *files: Path, topic: str = "clicks") -> list[dict[str, Any]]:
    return [row.asDict() for row in records(spark, files, load_mapping(mapping, topic)).collect()]


def test_rows_become_events_in_event_time_order(spark: SparkSession, files: tuple[Path, Path]) -> None:
    rows = converted(spark, *files)
    events = [json.loads(row["value"]) for row in rows]
    assert [event["product_id"] for event in events] == ['p"1', "p2", "p2"]
    assert [row["key"] for row in rows] == ["bob", "ada", "ada"]
    noon = datetime(2020, 1, 5, 12, tzinfo=UTC).timestamp() * 1000
    assert [row["arrival_ms"] - noon for row in rows] == [1000, 2000, 3000]
    assert events[1] == {"event_id": events[1]["event_id"], "event_time": "2020-01-05T12:00:02.000Z"} | ADA
    assert "dwell_ms" not in events[2]
    assert len({event["event_id"] for event in events}) == 3
    assert converted(spark, *files) == rows, "the order and the ids are the same in every run"


def test_parquet_and_json_lines_give_the_same_events(spark: SparkSession, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {
            "at": datetime(2020, 1, 5, 12, tzinfo=UTC),
            "ms": 1578225600000,
            "who": {"id": "u1", "tier": "gold"},
            "op": "c",
        },
        {
            "at": datetime(2020, 1, 5, 13, tzinfo=UTC),
            "ms": 1578229200000,
            "who": {"id": "u2", "tier": "tin"},
            "op": "c",
        },
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "users.parquet")
    lines = [json.dumps(row | {"at": row["at"].isoformat()}) for row in rows]
    (tmp_path / "users.jsonl").write_text("\n".join(lines))
    common = "user_id: who.id\nafter.tier: who.tier\nafter.country: {constant: DE}\nop: op\n"
    found = []
    for time in ("at", "{column: ms, format: epoch_ms}"):
        (tmp_path / "users.yaml").write_text(f"{common}event_time: {time}\n")
        for file in ("users.parquet", "users.jsonl"):
            found.append(converted(spark, tmp_path / "users.yaml", tmp_path / file, topic="users"))
    assert found[1:] == found[:-1]
    event = json.loads(found[0][0]["value"])
    assert event["after"] == {"tier": "gold", "country": "DE"}
    assert (event["type"], event["schema_version"]) == ("user_changed", 1)
    result = check(
        records(spark, [tmp_path / "users.parquet"], load_mapping(tmp_path / "users.yaml", "users")), "users"
    )
    assert [refusal.rule for refusal in result.refusals] == ["after_tier_unknown"]


BAD = """time,action,visitor,item,seconds,pieces
yesterday,view,ada,p1,1,
05.01.2020 13:00:00,browse,ada,p1,1,
05.01.2020 13:00:01,view,ada,p1,soon,
05.01.2020 13:00:02,view,,p1,1,
05.01.2020 13:00:03,view,ada,p1,1,
05.01.2020 13:00:03,view,ada,p1,1,
"""


def test_the_dry_run_shows_by_landings_rules_what_would_be_refused(
    spark: SparkSession, files: tuple[Path, Path]
) -> None:
    files[1].write_text(BAD)
    frame = records(spark, [files[1]], load_mapping(files[0], "clicks"))
    found = check(frame, "clicks")
    assert (found.records, found.refused, found.repeated) == (6, 4, 1)
    rules = {refusal.rule: refusal.examples for refusal in found.refusals}
    assert {"event_time_type", "type_unknown", "dwell_ms_type", "user_id_missing"} <= set(rules)
    assert '"event_time":"yesterday"' in rules["event_time_type"][0]
    assert '"dwell_ms":"soon"' in rules["dwell_ms_type"][0]
    assert start(frame).earliest_ms == 1578225600000


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("user: visitor", "there is no field 'user': did you mean 'user_id'"),
        ("user_id: {colum: visitor}", "user_id.colum"),
        ("user_id: {column: visitor, constant: x}", "either a column or a constant"),
        ("event_time: {column: time, timezone: Berlin}", "no time zone 'Berlin'"),
        ("user_id: visitor", "'type' has no source"),
        ("- user_id", "must contain fields"),
        ("a: b: c", "cannot be read"),
    ],
)
def test_a_mistake_in_the_mapping_is_named(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "mapping.yaml"
    file.write_text(text)
    with pytest.raises(LakehouseError, match=problem) as error:
        load_mapping(file, "clicks")
    assert str(file) in error.value.problem


def test_a_topic_that_nothing_lands_is_refused(files: tuple[Path, Path]) -> None:
    with pytest.raises(LakehouseError, match="Nothing lands clicks_raw"):
        load_mapping(files[0], "clicks_raw")


def test_a_column_or_a_format_that_does_not_exist_is_named(spark: SparkSession, files: tuple[Path, Path]) -> None:
    files[0].write_text(MAPPING.replace("visitor", "vistor"))
    with pytest.raises(LakehouseError, match=r"clicks\.csv has no column 'vistor'.*did you mean 'visitor'"):
        converted(spark, *files)
    (other := files[1].with_suffix(".xlsx")).touch()
    with pytest.raises(LakehouseError, match="its format is unknown"):
        converted(spark, files[0], other)


@pytest.fixture
def topic(settings: Settings, broker: object) -> str:
    """A topic of this test's own, by the name of none that is declared."""
    name = f"imported_{datetime.now(UTC):%H%M%S%f}"
    with admin(settings) as client:
        client.create_topics({name: {"num_partitions": 2}}, wait_for_metadata=True)
    return name


def admin(settings: Settings) -> Any:
    return closing(KafkaAdminClient(**python_options(settings)))


def configure(settings: Settings, topic: str, **configs: str) -> None:
    with admin(settings) as client:
        changes = {name.replace("_", "."): value for name, value in configs.items()}
        client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, changes)])


def sent(settings: Settings, topic: str) -> dict[int, list[Any]]:
    """Read the records of a topic, by partition."""
    return committed_since(settings, dict.fromkeys(end_offsets(settings, [topic]), 0), topic)


def test_a_killed_import_continues_and_sends_nothing_else_twice(
    spark: SparkSession, settings: Settings, topic: str, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"05.01.2020 13:{n // 60:02}:{n % 60:02},view,u{n % 7},p1,1," for n in range(900, 0, -1)]
    files[1].write_text("\n".join([CSV.splitlines()[0], *lines]))
    frame, id_ = records(spark, [files[1]], load_mapping(files[0], "clicks")), import_id("clicks", files[0], files[1:])
    monkeypatch.setattr(sending, "BATCH", 200)
    confirmed: list[int] = []

    def killed(number: int) -> None:
        confirmed.append(number)
        if len(confirmed) == 2:
            raise KeyboardInterrupt

    check_topic(settings, topic, start(frame).earliest_ms)
    with pytest.raises(KeyboardInterrupt):
        send(settings, topic, frame, id_, start(frame), killed)
    position = read_position(settings, id_)
    assert position == Position(900, start(frame).earliest_ms, 400)
    # As if it had been killed before the last position was written: these records are sent again, as they were.
    send(settings, topic, frame, id_, replace(position, sent=200), lambda _: None)
    done = read_position(settings, id_)
    assert done and done.finished
    found = [record for records in sent(settings, topic).values() for record in records]
    assert len(found) == 1100
    assert len({record.value for record in found}) == 900
    for records_ in sent(settings, topic).values():
        first: dict[bytes, int] = {}
        for record in records_:
            event_time = datetime.fromisoformat(json.loads(record.value)["event_time"])
            assert record.timestamp == event_time.timestamp() * 1000
            first.setdefault(record.value, record.timestamp)
        assert list(first.values()) == sorted(first.values())


def test_a_topic_that_would_make_history_late_is_refused(settings: Settings, topic: str) -> None:
    long_ago = int(datetime(2020, 1, 5, tzinfo=UTC).timestamp() * 1000)
    check_topic(settings, topic, long_ago)
    configure(settings, topic, retention_ms="604800000")
    with pytest.raises(LakehouseError, match=r"keeps records for 7 days .* delete it before it is landed"):
        check_topic(settings, topic, long_ago)
    configure(settings, topic, retention_ms="-1", message_timestamp_type="LogAppendTime")
    external = settings.kafka.model_copy(update={"servers": servers(settings)})
    with pytest.raises(LakehouseError, match="would arrive now, and be late"):
        check_topic(settings.model_copy(update={"kafka": external}), topic, long_ago)
    check_topic(settings, topic, long_ago)  # the embedded broker keeps the producer's times
    check_topic(settings.model_copy(update={"kafka": external}), topic, long_ago)


def declare(monkeypatch: pytest.MonkeyPatch, **lateness: timedelta | None) -> None:
    """Let producers set the arrival times of clicks."""
    clicks = topic_named("clicks")
    changed = {"arrival": "producer", "lateness": clicks.lateness.model_copy(update=lateness)}
    monkeypatch.setattr(checking, "topics", lambda: {"clicks": clicks.model_copy(update=changed)})


def test_history_older_than_landing_believes_is_refused(fresh_home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    now = int(datetime.now(UTC).timestamp() * 1000)
    old = now - 8 * DAY_MS
    refuse_too_old("clicks", old)  # the broker sets its arrival times
    declare(monkeypatch)
    refuse_too_old("clicks", now - 6 * DAY_MS)
    refuse_too_old("clicks", None)
    with pytest.raises(LakehouseError, match=r"more than 7 days ago \(`arrival: producer`") as error:
        check_topic(fresh_home, "clicks", old)  # before it asks Kafka, which does not run
    assert "max_arrival_age: never" in error.value.hint
    assert "config/topics/clicks.yaml" in error.value.hint
    declare(monkeypatch, max_arrival_age=None)
    refuse_too_old("clicks", old)


def test_the_dry_run_refuses_it_too(
    spark: SparkSession, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = records(spark, [files[1]], load_mapping(files[0], "clicks"))
    declare(monkeypatch)
    with pytest.raises(LakehouseError, match="more than 7 days ago"):
        check(frame, "clicks")
    declare(monkeypatch, max_arrival_age=None)
    assert check(frame, "clicks").records == 3


def test_a_topic_with_newer_records_is_refused(
    spark: SparkSession, settings: Settings, topic: str, files: tuple[Path, Path]
) -> None:
    frame = records(spark, [files[1]], load_mapping(files[0], "clicks"))
    position = start(frame)
    send(settings, topic, frame, "newer", position, lambda _: None)
    check_topic(settings, topic, position.earliest_ms + 2_000)
    with pytest.raises(LakehouseError, match="contains records after 2020-01-05 12:00:01") as error:
        check_topic(settings, topic, position.earliest_ms)
    assert "LAKEHOUSE_HOME" in error.value.hint
