"""Bots: their share, and that they can be distinguished from people."""

import json
from collections import defaultdict
from datetime import datetime

import pytest
from jsonschema import Draft202012Validator

from config.declarations import topics
from local.simulator.people import AGENTS
from local.simulator.plan import Plan
from local.simulator.records import Record
from local.simulator.shop import shard_records


@pytest.fixture(scope="module")
def bots(edge_records: list[Record]) -> list[Record]:
    return [record for record in edge_records if record.label == "bot"]


def most_in_ten_seconds(records: list[Record]) -> int:
    busiest = 0
    by_user = defaultdict(list)
    for record in records:
        by_user[record.key].append(datetime.fromisoformat(json.loads(record.value)["event_time"]).timestamp())
    for times in by_user.values():
        times.sort()
        busiest = max(busiest, *(sum(at <= t < at + 10 for t in times[i : i + 60]) for i, at in enumerate(times)))
    return busiest


def test_bots_come_at_their_share_and_only_at_the_edge(bots: list[Record]) -> None:
    assert len(bots) == pytest.approx(0.05 * 20_000, abs=1)
    assert {bot.topic for bot in bots} == {"clicks_raw"}
    assert not [r for r in shard_records(Plan(events=2_000, bots=0.5), 0) if r.label == "bot"]


def test_bots_write_valid_clicks(bots: list[Record]) -> None:
    validator = Draft202012Validator(topics()["clicks_raw"].events)
    for bot in bots:
        validator.validate(json.loads(bot.value))


def test_agents_betray_some_bots_and_pace_the_others(bots: list[Record], edge_records: list[Record]) -> None:
    people = [r for r in edge_records if r.topic == "clicks_raw" and r.label in ("valid", "late")]
    assert {bot.kind for bot in bots} == {"agent", "rate"}
    for bot in bots:
        assert (json.loads(bot.value)["user_agent"] in AGENTS) == (bot.kind == "rate")
    by_user = defaultdict(list)
    for bot in bots:
        by_user[bot.key, bot.kind].append(bot)
    slowest = min(most_in_ten_seconds(those) for (_, kind), those in by_user.items() if kind == "rate")
    assert most_in_ten_seconds(people) < 30 < slowest


@pytest.mark.parametrize("events", [1, 3, 50, 300])
def test_a_few_bots_are_no_problem(events: int) -> None:
    records = shard_records(Plan(events=events, bots=1.0, edge=True), 0)
    assert sum(record.label == "bot" for record in records) == events
