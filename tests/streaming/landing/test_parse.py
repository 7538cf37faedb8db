"""Parsing: hostile records end with a reason, valid ones are read, whatever their spelling."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from streaming.landing import parse as parsing
from streaming.landing.contract import contracts
from streaming.landing.parse import landing_columns, parse
from streaming.landing.write import typed

ARRIVAL = datetime(2026, 1, 5, 12, 0, 1, tzinfo=UTC)
GOOD: dict[str, Any] = {
    "event_id": "e1",
    "type": "page_view",
    "event_time": "2026-01-05T12:00:00.000Z",
    "schema_version": 1,
    "user_id": "u1",
    "product_id": "p1",
    "dwell_ms": 5,
}
PAID: dict[str, Any] = {name: GOOD[name] for name in ("event_id", "event_time", "schema_version", "user_id")} | {
    "type": "payment_received", "order_id": "o1", "payment_id": "y1", "merchant_id": "m1",
    "amount_cents": 7, "method": "card", "country": "DE",
}  # fmt: skip
USER: dict[str, Any] = {
    "event_id": "c1",
    "type": "user_changed",
    "event_time": "2026-01-05T12:00:00.000Z",
    "schema_version": 1,
    "user_id": "u1",
    "op": "u",
    "before": {"tier": "bronze", "country": "DE", "email": "a@example.org"},
    "after": {"tier": "gold", "country": "DE", "email": "a@example.org"},
}
RECORD = (
    "topic string, partition int, offset bigint, key binary, value binary, "
    "headers array<struct<key:string,value:binary>>, arrival_time timestamp"
)


def broken_rules(
    spark: SparkSession, values: Sequence[bytes | None], topic: str = "clicks", key: bytes = b"u1"
) -> list[list[str]]:
    """Give, for each value, the rules it broke."""
    rows = [(topic, 0, n, key, value, None, ARRIVAL) for n, value in enumerate(values)]
    parsed = parse(spark.createDataFrame(rows, RECORD))
    return [row.rules for row in parsed.orderBy("offset").select("rules").collect()]


def spelled(event: dict[str, Any], **fields: Any) -> bytes:
    """Write an event with some fields replaced, or left out where they are `...`."""
    changed = {name: value for name, value in (event | fields).items() if value is not ...}
    return json.dumps(changed, separators=(",", ":")).encode()


HOSTILE = {
    "not JSON": (b"hello", ["not_json"]),
    "truncated": (spelled(GOOD)[:40], ["not_json"]),
    "empty": (b"", ["no_value"]),
    "null value": (None, ["no_value"]),
    "an array": (b"[1,2]", ["not_json"]),
    "a number": (b"7", ["not_json"]),
    "JSON null": (b"null", ["not_json"]),
    "NaN": (spelled(GOOD).replace(b":5}", b":NaN}"), ["not_json"]),
    "1,100 levels deep": (b'{"event_id":' + b"[" * 1100 + b"]" * 1100 + b"}", ["not_json"]),
    "invalid UTF-8": (spelled(GOOD).replace(b"p1", b"\xff\xfe"), ["not_utf8"]),
    "a key twice": (spelled(GOOD).replace(b'"dwell_ms":5', b'"dwell_ms":5,"dwell_ms":6'), ["ambiguous_json"]),
    "text after it": (spelled(GOOD) + b" x", ["ambiguous_json"]),
    "two objects": (spelled(GOOD) + spelled(GOOD), ["ambiguous_json"]),
    "a brace after it": (spelled(GOOD) + b" x}", ["ambiguous_json"]),
    "text for a number": (spelled(GOOD, dwell_ms="5"), ["dwell_ms_type"]),
    "a number for text": (spelled(GOOD, product_id=5), ["product_id_type"]),
    "a number for text beside quotes in text": (
        spelled(GOOD, product_id=5, agent='a "quoted" agent'),
        ["product_id_type"],
    ),
    "a list for text": (spelled(GOOD, product_id=["p1"]), ["product_id_type"]),
    "an object for text": (spelled(GOOD, product_id={"a": 1}), ["product_id_type"]),
    "a fraction": (spelled(GOOD, dwell_ms=1.5), ["dwell_ms_type"]),
    "beyond long": (spelled(GOOD, dwell_ms=10**20), ["dwell_ms_type"]),
    "a missing field": (spelled(GOOD, user_id=...), ["user_id_missing"]),
    "a field of its type missing": (spelled(GOOD, dwell_ms=...), ["dwell_ms_missing"]),
    "an unknown type": (spelled(GOOD, type="teleport"), ["type_unknown"]),
    "an unknown schema version": (spelled(GOOD, schema_version=9), ["schema_version_unknown"]),
    "two days ahead": (spelled(GOOD, event_time="2026-01-07T12:00:00.000Z"), ["event_time_ahead"]),
    "the year 9999": (spelled(GOOD, event_time="9999-12-31T23:59:59.999Z"), ["event_time_ahead"]),
    "the year 1": (
        spelled(GOOD, event_time="0001-01-01T00:00:00.000Z"),
        ["event_time_plausible", "event_time_too_old"],
    ),
    "a month and a millisecond old": (spelled(GOOD, event_time="2025-12-06T12:00:00.999Z"), ["event_time_too_old"]),
    "a date only": (spelled(GOOD, event_time="2026-01-05"), ["event_time_type"]),
    "a small t in its time": (spelled(GOOD, event_time="2026-01-05t12:00:00.000Z"), ["event_time_type"]),
    "a small z in its time": (spelled(GOOD, event_time="2026-01-05T12:00:00.000z"), ["event_time_type"]),
    "a time in another zone": (spelled(GOOD, event_time="2026-01-05T12:00:00.000+00:00"), ["event_time_type"]),
    "a whole number with a point": (spelled(GOOD, dwell_ms=5.0), ["dwell_ms_type"]),
    "a whole number with an exponent": (spelled(GOOD).replace(b":5}", b":5e0}"), ["dwell_ms_type"]),
    "a number for one of some values": (spelled(GOOD, type=7), ["type_type"]),
    "the first half of a surrogate pair": (spelled(GOOD, event_id="e\ud83d"), ["not_utf8"]),
    "the second half of a surrogate pair": (spelled(GOOD, event_id="\ude00e"), ["not_utf8"]),
    "two first halves, after a backslash": (spelled(GOOD, event_id="\\\ud83d\ud83d"), ["not_utf8"]),
    "another's key": (spelled(GOOD, user_id="u2"), ["key_differs"]),
    "two rules at once": (
        spelled(GOOD, dwell_ms=-1, schema_version=9),
        ["schema_version_unknown", "dwell_not_negative"],
    ),
}
VALID = {
    "compact": spelled(GOOD),
    "with blanks": json.dumps(GOOD).encode(),
    "with an unknown field": spelled(GOOD, later={"a": [1, "}"]}),
    "with an explicit null": spelled(GOOD, ip=None),
    "with quotes and braces in text": spelled(GOOD, agent='a "quoted" } agent'),
    "with an escaped surrogate pair": spelled(GOOD, event_id="😀"),
    "with a backslash before what looks like an escape": spelled(GOOD, event_id="\\ud83d"),
    "a month old": spelled(GOOD, event_time="2025-12-06T12:00:01.000Z"),
    "with t and z in its id": spelled(GOOD, event_id="0t0z"),
    "with letters of other alphabets": json.dumps(GOOD | {"agent": "Ünïcödé ☃"}, ensure_ascii=False).encode(),
}


def test_every_hostile_record_ends_with_its_reasons(spark: SparkSession) -> None:
    found = broken_rules(spark, [value for value, _ in HOSTILE.values()])
    assert dict(zip(HOSTILE, found, strict=True)) == {name: reasons for name, (_, reasons) in HOSTILE.items()}


def test_a_valid_record_is_valid_however_it_is_written(spark: SparkSession) -> None:
    assert dict(zip(VALID, broken_rules(spark, list(VALID.values())), strict=True)) == {name: [] for name in VALID}


def test_nested_fields_are_checked_too(spark: SparkSession) -> None:
    bad = USER["after"] | {"tier": "tin"}
    values = [spelled(USER), spelled(USER, after=bad), spelled(USER, after=...), spelled(USER, before="x")]
    assert broken_rules(spark, values, "users") == [
        [],
        ["after_tier_unknown"],
        ["after_missing"],
        ["before_type"],
    ]


def test_an_amount_that_could_overflow_a_sum_is_refused(spark: SparkSession) -> None:
    amounts = [10**11, 10**11 + 1, 2**63 - 1]
    expected = [[], ["amount_plausible"], ["amount_plausible"]]
    assert (
        broken_rules(spark, [spelled(PAID, amount_cents=amount) for amount in amounts], "payments", b"o1") == expected
    )
    placed = PAID | {"type": "order_placed", "product_id": "p1", "quantity": 1}
    assert (
        broken_rules(spark, [spelled(placed, amount_cents=amount) for amount in amounts], "orders", b"o1") == expected
    )


@pytest.mark.parametrize(("late_by", "is_late"), [(600_000, False), (600_001, True)])
def test_late_begins_one_millisecond_past_the_allowance(spark: SparkSession, late_by: int, is_late: bool) -> None:
    moment = ARRIVAL - timedelta(milliseconds=late_by)
    value = spelled(GOOD, event_time=moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z")
    row = parse(spark.createDataFrame([("clicks", 0, 0, b"u1", value, None, ARRIVAL)], RECORD)).first()
    assert row is not None
    assert (row.late_by_ms == late_by) if is_late else (row.late_by_ms is None)


def test_a_column_that_two_tables_declare_differently_keeps_its_type_in_each(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    clicks, payments = (c for c in contracts() if c.topic.name in ("clicks", "payments"))
    as_number = clicks.table.columns["user_id"].model_copy(update={"type": "bigint", "source": "dwell_ms"})
    other = clicks.table.model_copy(update={"columns": {**clicks.table.columns, "user_id": as_number}})
    promised = (replace(clicks, table=other), payments)
    rows = [
        ("clicks", 0, 0, b"u1", spelled(GOOD), None, ARRIVAL),
        ("payments", 0, 1, b"o1", spelled(PAID), None, ARRIVAL),
    ]
    monkeypatch.setattr(parsing, "contracts", lambda: promised)
    parsing._projections.cache_clear()
    try:
        parsed = parse(spark.createDataFrame(rows, RECORD)).orderBy("offset")
        here = parsed.toArrow()
        for number, (contract, user) in enumerate(zip(promised, (5, "u1"), strict=True)):
            by_spark = parsed.select(*landing_columns(contract)).toArrow().to_pylist()[number]
            assert by_spark["user_id"] == user
            assert typed(here, contract).to_pylist()[number] == by_spark
    finally:
        parsing._projections.cache_clear()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(list(GOOD)) | st.text(max_size=4), inner)
    ),
    max_leaves=8,
)
GARBAGE = st.one_of(
    st.binary(max_size=60),
    JSON.map(lambda value: json.dumps(value).encode()),
    st.builds(lambda field, value: spelled(GOOD, **{field: value}), st.sampled_from(list(GOOD)), JSON),
    st.builds(lambda cut, extra: spelled(GOOD)[:cut] + extra, st.integers(0, 150), st.binary(max_size=5)),
)


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(GARBAGE, min_size=40, max_size=40))
def test_garbage_never_stops_the_query_and_what_passes_is_what_json_says(
    spark: SparkSession, values: list[bytes]
) -> None:
    for value, rules in zip(values, broken_rules(spark, values), strict=True):
        if not rules:  # accepted: then Python's own strict reading must agree that it is such an event
            event = json.loads(value.decode("utf-8"), object_pairs_hook=_once)
            assert {type(event[name]) for name in ("event_id", "type", "event_time", "user_id", "product_id")} == {str}
            assert event["schema_version"] == 1
            assert event["user_id"] == "u1"


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len({key for key, _ in pairs}) == len(pairs)
    return dict(pairs)
