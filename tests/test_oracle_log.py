"""The oracle's reading of the log: each record's outcome, hostile ones too, from hand, archive and broker alike."""

import ast
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import oracle
import pyarrow as pa
from deltalake import write_deltalake
from event_log import EventLog, event, moment, written
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic
from oracle import Oracle, from_bronze, from_kafka, from_rows
from oracle.logs import SCHEMA

from config.kafka import python_options, servers
from config.settings import Settings
from local.broker import Broker

ARRIVED = moment("12:00:01")
GOOD = event("page_view", "e1", "12:00", dwell_ms=5)


def spelled(kind: str = "page_view", **fields: Any) -> bytes:
    return json.dumps(event(kind, "e1", "12:00", **fields), separators=(",", ":")).encode()


def outcomes_of(*values: bytes | None, topic: str = "clicks", key: bytes | None = b"u1") -> list[str]:
    log = EventLog()
    for partition, value in enumerate(values):  # each in a partition and with an id of its own: no copies
        value = value and value.replace(b'"e1"', f'"e{partition}"'.encode())
        log.put(topic, value, key, ARRIVED, partition)
    return log.outcomes()


HOSTILE = {
    "not JSON": b"hello",
    "truncated": spelled()[:40],
    "empty": b"",
    "null value": None,
    "an array": b"[1,2]",
    "JSON null": b"null",
    "NaN": spelled(dwell_ms=float("nan")),
    "NaN in an unknown field": spelled(later=[float("nan")]),
    "a trailing comma": spelled().replace(b"}", b" , }"),
    "a trailing comma in an unknown list": spelled(later=[7]).replace(b"7", b"7,"),
    "invalid UTF-8": spelled().replace(b"p1", b"\xff\xfe"),
    "a key twice": spelled().replace(b'"dwell_ms":100', b'"dwell_ms":100,"dwell_ms":100'),
    "an unknown key twice, deep": spelled(later={"a": [{"b": 1, "c": 2}]}).replace(b'"c"', b'"b"'),
    "text after it": spelled() + b" x",
    "two objects": spelled() + spelled(),
    "text for a number": spelled(dwell_ms="5"),
    "a number for text": spelled(product_id=5),
    "an object for text": spelled(ip={"a": 1}),
    "a fraction": spelled(dwell_ms=1.5),
    "beyond long": spelled(dwell_ms=10**20),
    "a missing field": spelled(product_id=...),
    "a required null": spelled(product_id=None),
    "a field of its type missing": spelled(dwell_ms=...),
    "an unknown type": spelled(type="teleport"),
    "an unknown schema version": spelled(schema_version=9),
    "a millisecond too far ahead": spelled(event_time="2026-01-05T12:02:01.001Z"),
    "the last century": spelled(event_time="1999-12-31T23:59:59.999Z"),
    "a month and a millisecond old": spelled(event_time="2025-12-06T12:00:00.999Z"),
    "a small t in its time": spelled(event_time="2026-01-05t12:00:00.000Z"),
    "a small z in its time": spelled(event_time="2026-01-05T12:00:00.000z"),
    "half of a surrogate pair": spelled(agent="\ud83d"),
    "a date only": spelled(event_time="2026-01-05"),
    "no such day": spelled(event_time="2026-02-30T12:00:00.000Z"),
    "another zone": spelled(event_time="2026-01-05T12:00:00.000+00:00"),
    "another's key": spelled(user_id="u2"),
    "less than no time": spelled(dwell_ms=-1),
    "more than a day": spelled(dwell_ms=86_400_001),
    "nothing in the cart": spelled("add_to_cart", quantity=0),
    "no advertisement": spelled("click", impression_id=...),
}
VALID = {
    "compact": spelled(),
    "with blanks": b"\n" + json.dumps(GOOD).encode() + b" ",
    "with an unknown field": spelled(later={"a": [1, "}", {"a": 1.5e300}]}),
    "with an explicit null": spelled(ip=None),
    "with marks in text": spelled(agent='a "quoted", } NaN, ] \\'),
    "with an escaped surrogate pair": spelled(agent="😀"),
    "with other alphabets": json.dumps(GOOD | {"agent": "Ünïcödé ☃"}, ensure_ascii=False).encode(),
    "as far ahead as allowed": spelled(event_time="2026-01-05T12:02:01.000Z"),
    "a day on the page": spelled(dwell_ms=86_400_000),
}


def test_hostile_records_are_quarantined_and_only_these() -> None:
    found = outcomes_of(*HOSTILE.values(), *VALID.values())
    expected = dict.fromkeys(HOSTILE, "quarantined") | dict.fromkeys(VALID, "silver")
    assert dict(zip([*HOSTILE, *VALID], found, strict=True)) == expected


def test_an_event_of_a_month_ago_is_late_and_no_more() -> None:
    assert outcomes_of(spelled(event_time="2025-12-06T12:00:01.000Z")) == ["late"]


def test_an_arrival_that_cannot_be_true_is_quarantined() -> None:
    log = EventLog()
    now = datetime.now(UTC)
    for arrival in (now + timedelta(minutes=1), now + timedelta(days=365), moment("1999-12-31T23:59:59")):
        log.put("clicks", spelled(event_time=written(arrival)), b"u1", arrival)
    assert log.outcomes() == ["silver", "quarantined", "quarantined"]


def test_a_record_without_a_key_has_not_the_key_of_its_field() -> None:
    assert outcomes_of(spelled(), key=None) == ["quarantined"]


def test_orders_payments_and_users_have_rules_of_their_own() -> None:
    order = [spelled("order_placed"), spelled("order_placed", amount_cents=-1), spelled("order_placed", quantity=0)]
    order.append(spelled("order_placed", amount_cents=10**11 + 1))
    change = [spelled("order_status_changed", status="lost"), spelled("order_status_changed", status=...)]
    assert outcomes_of(*order, *change, topic="orders", key=b"o1") == ["silver", *["quarantined"] * 5]
    payment = [spelled("payment_received", country=land) for land in ("DE", "de", "DE\n", "DEU")]
    payment.append(spelled("payment_received", amount_cents=10**11 + 1))
    failed = [spelled("payment_received", type="payment_failed"), spelled("payment_received", method="cash")]
    assert outcomes_of(*payment, *failed, topic="payments", key=b"o1") == ["silver", *["quarantined"] * 6]
    users: list[dict[str, Any]] = [
        {},
        {"op": "c", "before": ...},
        {"op": "d", "after": ...},
        {"before": None},
        {"after": ...},
        {"before": "x"},
        {"after": {"tier": "tin"}},
        {"before": {"tier": "tin"}},
        {"after": {"country": "x"}},
        {"op": "x"},
    ]
    values = [spelled("user_changed", **fields) for fields in users]
    twice = spelled("user_changed").replace(b'"tier":"gold"', b'"tier":"gold","tier":"gold"')
    assert outcomes_of(*values, twice, topic="users") == [*["silver"] * 3, *["quarantined"] * 8]


def test_each_record_has_the_first_outcome_that_fits() -> None:
    log = EventLog()
    log.add("page_view", "ok", "12:00")
    log.add("page_view", "in_time", "12:00", arrival="12:10")
    log.add("page_view", "late", "12:00", arrival="12:10:00.001")
    log.add("page_view", "late", "12:00", arrival="12:05")  # its first copy was late
    log.add("page_view", "ok", "12:00")
    log.add("page_view", "ok", "12:00", dwell_ms=7)
    log.add("page_view", "ok", "12:00", arrival="12:30")
    log.add("page_view", "ok", "12:00", arrival="12:30", dwell_ms=7)
    log.add("page_view", "ok", "12:00", arrival="12:30", dwell_ms=-1)
    log.add("page_view", "ok", "12:59:59.999", dwell_ms=7)  # the same hour
    log.add("page_view", "ok", "13:00", dwell_ms=7)  # another hour: another event
    log.add("user_changed", "ok", "12:00", arrival="23:00")  # another topic, and users are never late
    silver, late, copy, broken = "silver", "late", "duplicate", "quarantined"
    last = [broken, silver, silver]
    assert log.outcomes() == [silver, silver, late, copy, copy, broken, late, broken, broken, *last]
    off = [silver, silver, silver, copy, copy, broken, copy, broken, broken, *last]
    assert log.outcomes(late_counts=False) == off
    assert log.rows("silver.late", "event_id late_by_ms duplicate_of") == [
        ("late", 600_001, None),
        ("ok", 1_800_000, {"partition": 0, "offset": 0}),
    ]
    assert log.rows("silver.duplicates", "offset duplicate_of") == [
        (3, {"partition": 0, "offset": 2}),
        (4, {"partition": 0, "offset": 0}),
    ]
    assert [row[1] for row in log.rows("silver.quarantine", "offset duplicate_of")] == [
        {"partition": 0, "offset": 0}, {"partition": 0, "offset": 0}, None, {"partition": 0, "offset": 0},
    ]  # fmt: skip


def test_a_broken_record_is_nobody_s_first_copy() -> None:
    log = EventLog()
    log.add("page_view", "a", "12:00", dwell_ms=-1)
    log.add("page_view", "a", "12:00")
    assert log.outcomes() == ["quarantined", "silver"]


def test_times_of_arrival_may_be_milliseconds() -> None:
    record = ("clicks", 0, 0, b"u1", spelled(), ARRIVED)
    as_number = (*record[:5], int(ARRIVED.timestamp() * 1000))
    assert Oracle(from_rows([record])).table("silver.clicks") == Oracle(from_rows([as_number])).table("silver.clicks")


def test_the_archive_is_read_where_it_lies(tmp_path: Path) -> None:
    log = EventLog()
    for hour in ("11:00", "12:00"):
        log.add("page_view", hour, hour)
        log.add("order_placed", hour, hour)
    records = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in log.records], SCHEMA)
    records = records.append_column("arrival_date", records["arrival_time"].cast(pa.date32()))
    folder = tmp_path / "a fresh home"
    for half in (records.slice(0, 2), records.slice(2)):
        write_deltalake(folder, half, mode="append", partition_by=["topic", "arrival_date"])
    found = Oracle(from_bronze(folder))
    for table in ("silver.clicks", "silver.orders"):
        ours = found.table(table).sort_by("offset")
        assert ours == Oracle(from_rows(log.records)).table(table).sort_by("offset")


def test_of_the_broker_only_what_was_committed_is_read(broker: Broker, settings: Settings) -> None:
    topic, options = "oracle", python_options(settings)
    admin = KafkaAdminClient(**options)
    admin.create_topics([NewTopic(topic, 2, 1)])
    admin.close()
    producer = KafkaProducer(**options, transactional_id=topic)
    producer.init_transactions()
    for value, finish in [(b"kept", producer.commit_transaction), (b"dropped", producer.abort_transaction)]:
        producer.begin_transaction()
        producer.send(topic, value, b"k", partition=1, timestamp_ms=1_000)
        producer.flush()
        finish()
    producer.close()
    found = from_kafka(servers(settings), [topic]).sql("from records").fetchall()
    assert [(*row[:5], row[5].isoformat()) for row in found] == [(topic, 1, 0, b"k", b"kept", "1970-01-01T00:00:01")]


def test_the_oracle_imports_nothing_of_the_project() -> None:
    found = set()
    for file in Path(oracle.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                found |= {name.name for name in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0
                found.add(node.module or "")
    ours = {"dataclasses", "typing", "collections", "datetime", "pathlib", "tempfile", "time", "urllib", "oracle"}
    ours |= {"importlib", "pkgutil"}
    assert {name.split(".")[0] for name in found} <= ours | {"duckdb", "pyarrow", "deltalake", "kafka"}
