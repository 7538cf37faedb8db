"""The shop: what any run must be like."""

import hashlib
import json
from collections import Counter, defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from config.declarations import topics
from local.simulator.goods import HOT, PRODUCT_IDS
from local.simulator.keys import partition_of
from local.simulator.plan import Plan
from local.simulator.records import Record
from local.simulator.shop import shard_batch, shard_records, topics_of

Event = dict[str, Any]


def first_copies(records: list[Record]) -> list[Record]:
    return [record for record in records if record.label in ("valid", "late")]


def event_ms(event: Event) -> int:
    return round(datetime.fromisoformat(event["event_time"]).timestamp() * 1000)


@pytest.fixture(scope="module")
def events(records: list[Record]) -> list[Event]:
    return [json.loads(record.value) for record in first_copies(records)]


def test_the_same_options_give_the_same_bytes() -> None:
    plan = Plan(events=5_000, edge=True)
    assert shard_batch(plan, 0).equals(shard_batch(plan, 0))


def test_the_records_are_those_of_every_machine_and_version() -> None:
    # It changes with the generator, and with nothing else: not with Python, numpy, Arrow or the processor.
    together = hashlib.sha256()
    for record in first_copies(shard_records(Plan(events=5_000, edge=True), 0)):
        together.update(record.value)
    assert together.hexdigest() == "e44ddf983085a1a4ac7ba913c9dabaf702c3b0cf13c40c5c4b1066499722489d"


def test_another_seed_or_start_gives_other_ids(plan: Plan, records: list[Record]) -> None:
    ids = {record.id for record in records}
    for other in (replace(plan, seed=8), replace(plan, start=datetime(2026, 1, 6, tzinfo=UTC))):
        assert ids.isdisjoint(record.id for record in shard_records(other, 0))


@pytest.mark.parametrize(
    "options",
    [{"events": 1}, {"events": 777}, {"events": 25_001}, {"events": 3_000, "days": 9}, {"events": 300, "live": 30}],
)
def test_there_are_exactly_as_many_events_as_asked_for(options: dict[str, Any]) -> None:
    plan = Plan(**options)
    firsts = [record for shard in range(plan.shards) for record in first_copies(shard_records(plan, shard))]
    assert len(firsts) == len({record.id for record in firsts}) == plan.events


def test_every_type_of_event_is_valid_by_its_declared_schema(records: list[Record], edge_records: list[Record]) -> None:
    seen = defaultdict(list)
    for record in first_copies([*records, *edge_records]):
        seen[record.topic, record.type].append(record)
    for topic in ("clicks", "clicks_raw", "orders", "payments", "users"):
        validator = Draft202012Validator(topics()[topic].events)
        for kind in topics()[topic].types:
            assert seen[topic, kind], f"no {kind} in {topic}"
            for record in seen[topic, kind][:200]:
                validator.validate(json.loads(record.value))


def test_events_are_compact_and_open_with_the_envelope(records: list[Record]) -> None:
    for record in first_copies(records)[::50]:
        event = json.loads(record.value)
        assert list(event)[:4] == ["event_id", "type", "event_time", "schema_version"]
        assert record.value.decode() == json.dumps(event, separators=(",", ":"), ensure_ascii=False)
        assert (event["event_id"], event["type"]) == (record.id, record.type)


def test_key_and_partition_are_those_of_the_declared_key(plan: Plan, records: list[Record]) -> None:
    for record in first_copies(records)[::50]:
        topic = topics()[record.topic]
        assert json.loads(record.value)[topic.key].encode() == record.key
        assert record.partition == partition_of(record.key, topic.partitions)


def test_all_happens_within_the_period(plan: Plan, events: list[Event]) -> None:
    times = [event_ms(event) for event in events]
    assert plan.start_ms <= min(times)
    assert max(times) < plan.end_ms


def test_nothing_arrives_too_late_unless_it_is_called_late(records: list[Record]) -> None:
    for record in records:
        if record.label in ("malformed", "bot"):
            continue
        lateness = topics()[record.topic].lateness
        delay = record.arrival_ms - event_ms(json.loads(record.value))
        assert delay >= -lateness.max_clock_ahead.total_seconds() * 1000
        if lateness.allowance is not None:
            is_late = delay > lateness.allowance.total_seconds() * 1000
            assert is_late == record.label.startswith("late"), record


def test_records_come_out_of_order(records: list[Record]) -> None:
    clicks = sorted((r for r in records if r.topic == "clicks" and r.label == "valid"), key=lambda r: r.arrival_ms)
    times = [event_ms(json.loads(record.value)) for record in clicks]
    assert sum(later < earlier for earlier, later in pairwise(times)) > len(times) / 10


def test_no_two_records_share_their_place_in_time(records: list[Record]) -> None:
    assert len({(record.arrival_ms, record.tie) for record in records}) == len(records)


def test_orders_follow_from_carts_and_payments_from_orders(events: list[Event]) -> None:
    by_type = defaultdict(list)
    for event in events:
        by_type[event["type"]].append(event)
    carts = defaultdict(list)
    for cart in by_type["add_to_cart"]:
        carts[cart["user_id"], cart["product_id"]].append(event_ms(cart))
    placed = {order["order_id"]: order for order in by_type["order_placed"]}
    for order in placed.values():
        waits = [event_ms(order) - cart for cart in carts[order["user_id"], order["product_id"]]]
        assert any(0 < wait <= 86_400_000 for wait in waits)
    for payment in by_type["payment_received"] + by_type["payment_failed"]:
        order = placed[payment["order_id"]]
        assert payment["amount_cents"] == order["amount_cents"] > 0
        assert payment["merchant_id"] == order["merchant_id"]
        assert event_ms(payment) > event_ms(order)
    assert 0.2 < len(placed) / len(by_type["add_to_cart"]) < 0.4
    assert 0.7 < len(by_type["payment_received"]) / len(placed) < 0.99


def test_an_order_goes_through_its_statuses_in_time(events: list[Event]) -> None:
    ways = defaultdict(list)
    for event in sorted(events, key=event_ms):
        if event["type"] == "order_status_changed":
            ways[event["order_id"]].append(event["status"])
    whole = ["placed", "paid", "packed", "shipped", "delivered"]
    for way in ways.values():
        assert way == whole[: len(way)] or way in (["placed", "cancelled"], ["placed", "paid", "cancelled"])
    assert {tuple(way) for way in ways.values()} >= {tuple(whole), ("placed", "cancelled")}


def test_clicks_follow_their_impressions_mostly_within_five_minutes(events: list[Event]) -> None:
    shown = {event["impression_id"]: event for event in events if event["type"] == "impression"}
    waits = []
    for click in (event for event in events if event["type"] == "click"):
        impression = shown[click["impression_id"]]
        assert (click["user_id"], click["product_id"]) == (impression["user_id"], impression["product_id"])
        waits.append(event_ms(click) - event_ms(impression))
    assert min(waits) > 0
    assert 0.85 < sum(wait <= 300_000 for wait in waits) / len(waits) < 0.99


def test_each_change_of_a_user_begins_where_the_last_one_ended(events: list[Event]) -> None:
    changes = defaultdict(list)
    for event in sorted(events, key=event_ms):
        if event["type"] == "user_changed":
            changes[event["user_id"]].append(event)
    for first, *others in changes.values():
        assert first["op"] == "c"
        row = first["after"]
        for change in others:
            assert change["before"] == row
            row = change.get("after")
    assert Counter(change["op"] for those in changes.values() for change in those).keys() == {"c", "u", "d"}


def test_most_users_are_known_before_their_first_click_but_not_all(events: list[Event]) -> None:
    created: dict[str, int] = {}
    clicked: dict[str, int] = {}
    for event in sorted(events, key=event_ms):
        first = {"user_changed": created, "page_view": clicked}.get(event["type"])
        if first is not None:
            first.setdefault(event["user_id"], event_ms(event))
    unknown = sum(created.get(user, at + 1) > at for user, at in clicked.items())
    assert 0 < unknown < 0.05 * len(clicked)


def test_a_product_has_one_merchant_and_one_price(events: list[Event]) -> None:
    sold = defaultdict(set)
    for event in events:
        if event["type"] == "order_placed":
            sold[event["product_id"]].add((event["merchant_id"], event["amount_cents"] // event["quantity"]))
    assert {len(terms) for terms in sold.values()} == {1}


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5])
def test_the_hot_product_gets_its_share(share: float) -> None:
    records = first_copies(shard_records(Plan(events=20_000, hot_key=share), 0))
    views = [record.value for record in records if record.type in ("page_view", "impression")]
    hot = f'"product_id":"{PRODUCT_IDS[HOT]}"'.encode()
    assert abs(sum(hot in value for value in views) / len(views) - share) < 0.02


def test_with_and_without_edge_the_same_things_happen(edge_records: list[Record]) -> None:
    def content(records: list[Record]) -> set[tuple[str, str, bytes, int]]:
        return {(r.id, r.type, r.key, r.arrival_ms) for r in first_copies(records)}

    assert content(edge_records) == content(shard_records(Plan(events=20_000), 0))


def test_the_edge_sees_whole_addresses_and_the_clean_topic_only_networks(
    records: list[Record], edge_records: list[Record]
) -> None:
    clean = [json.loads(r.value) for r in first_copies(records) if r.topic == "clicks"]
    assert all(click["ip"].endswith(".0") and click["agent"].count("/") == 1 for click in clean)
    assert not any({"email", "name", "user_agent"} & set(click) for click in clean)
    raw = [json.loads(r.value) for r in first_copies(edge_records) if r.topic == "clicks_raw"]
    assert not any(click["ip"].endswith(".0") for click in raw)
    assert {"email", "name"} <= {field for click in raw for field in click}


def test_a_run_writes_to_the_topics_it_names(plan: Plan, records: list[Record]) -> None:
    assert {record.topic for record in records} == set(topics_of(plan))
