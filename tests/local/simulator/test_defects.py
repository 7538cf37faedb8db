"""Defects: at the asked shares, and what they are called."""

import json
from collections import Counter
from datetime import datetime
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from config.declarations import topics
from local.simulator.plan import Plan
from local.simulator.records import MALFORMED_KINDS, Record
from local.simulator.shop import shard_records


@pytest.fixture(scope="module")
def firsts(records: list[Record]) -> dict[str, Record]:
    return {record.id: record for record in records if record.label in ("valid", "late")}


def parsed(value: bytes) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return None


def test_the_shares_are_the_asked_ones(plan: Plan, records: list[Record]) -> None:
    labels = Counter(record.label for record in records)
    able = sum(r.label in ("valid", "late") and r.topic != "users" for r in records)
    assert labels["late"] / able == pytest.approx(plan.late, rel=0.05)
    assert (labels["duplicate"] + labels["late_copy"]) / plan.events == pytest.approx(plan.duplicates, rel=0.05)
    assert labels["malformed"] / plan.events == pytest.approx(plan.malformed, rel=0.05)
    assert labels["bot"] == 0


def test_without_shares_there_are_no_defects() -> None:
    plan = Plan(events=5_000, late=0, duplicates=0, malformed=0, bots=0, edge=True)
    assert {record.label for record in shard_records(plan, 0)} == {"valid"}


def test_late_records_are_clearly_late_and_users_never(records: list[Record]) -> None:
    for record in records:
        if record.label == "late":
            limit = topics()[record.topic].lateness.allowance
            assert limit is not None
            time = datetime.fromisoformat(json.loads(record.value)["event_time"])
            assert 1.19 <= (record.arrival_ms / 1000 - time.timestamp()) / limit.total_seconds() <= 12.01


def test_copies_are_equal_to_the_byte_and_come_after_the_first(
    records: list[Record], firsts: dict[str, Record]
) -> None:
    copies = [record for record in records if record.label in ("duplicate", "late_copy")]
    for copy in copies:
        first = firsts[copy.id]
        assert (copy.topic, copy.partition, copy.key, copy.value) == first[:2] + first[4:6]
        assert copy.arrival_ms > first.arrival_ms


def test_some_copies_are_late_while_the_first_was_not(records: list[Record], firsts: dict[str, Record]) -> None:
    assert any(record.label == "late_copy" and firsts[record.id].label == "valid" for record in records)


def test_every_kind_of_damage_occurs_in_a_large_run(records: list[Record]) -> None:
    assert {record.kind for record in records if record.label == "malformed"} == set(MALFORMED_KINDS)


def test_each_malformed_record_has_an_id_of_its_own(records: list[Record], firsts: dict[str, Record]) -> None:
    ids = [record.id for record in records if record.label == "malformed"]
    assert len(set(ids)) == len(ids)
    assert firsts.keys().isdisjoint(ids)


def test_only_a_reused_id_is_the_id_of_a_valid_event(records: list[Record], firsts: dict[str, Record]) -> None:
    for record in records:
        event = parsed(record.value) if record.label == "malformed" else None
        if isinstance(event, dict) and record.kind != "reused_id":
            assert event.get("event_id") not in firsts


def test_a_reused_id_says_something_else_right_after_the_first(
    records: list[Record], firsts: dict[str, Record]
) -> None:
    reused = [record for record in records if record.kind == "reused_id"]
    same_time = 0
    for record in reused:
        event = json.loads(record.value)
        Draft202012Validator(topics()[record.topic].events).validate(event)
        first = firsts[event["event_id"]]
        assert first.label == "valid"
        assert (record.topic, record.partition, record.key) == (first.topic, first.partition, first.key)
        assert record.value != first.value
        assert 0 < record.arrival_ms - first.arrival_ms <= 2_050
        same_time += event["event_time"] == json.loads(first.value)["event_time"]
    assert 0 < same_time < len(reused)


def test_what_is_damaged_breaks_a_rule(records: list[Record]) -> None:
    for record in (record for record in records if record.label == "malformed"):
        assert breaks_a_rule(record), record


def breaks_a_rule(record: Record) -> bool:
    topic = topics()[record.topic]
    event = parsed(record.value)
    if record.kind == "reused_id":
        return True  # only beside the other is it wrong
    if event is None or not Draft202012Validator(topic.events).is_valid(event):
        return True
    properties = topic.events["properties"]
    numbers = [value for name, value in event.items() if properties[name]["type"] == "integer"]
    ahead = datetime.fromisoformat(event["event_time"]).timestamp() - record.arrival_ms / 1000
    return (
        min(numbers) < 0
        or ahead > topic.lateness.max_clock_ahead.total_seconds()
        or event[topic.key].encode() != record.key
    )
