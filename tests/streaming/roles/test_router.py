"""The router on a real log: `clicks` and `dead_letter` hold exactly what the raw clicks make them."""

import hashlib
import json
import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from kafka import KafkaProducer
from raw_clicks import Written, clicks_of, clicks_since, committed_since, raw, records_of, send, user

from config.declarations import topics
from config.errors import LakehouseError
from config.kafka import end_offsets, python_options
from config.settings import RouterSettings, Settings
from local.simulator.plan import Plan
from local.simulator.records import Record
from streaming.kafka.consumer import Progress
from streaming.roles.router.router import Counts, run

PLAN = Plan(seed=11, events=12_000, edge=True, malformed=0.02, late=0.02, duplicates=0.02, bots=0.1)


DEAD = {
    **dict.fromkeys(("not_json", "truncated", "empty"), "unreadable: "),
    "missing_field": "missing: ",
    **dict.fromkeys(("wrong_type", "unknown_type", "negative_number", "unknown_version"), "malformed: "),
}
"""How a record is malformed -> how the reason of its dead letter begins; landing judges the others."""


@pytest.fixture(scope="module")
def log(settings: Settings, broker: object) -> Settings:
    """A log whose raw clicks are routed up to now."""
    run(settings, until_caught_up=True)
    return settings


@dataclass(frozen=True)
class Routed:
    """A shop's raw clicks, and what the log holds of them after a run of the router."""

    records: list[Record]
    progress: Progress
    counts: Counts
    clicks: dict[int, list[Written]]
    letters: dict[str, tuple[dict[str, Any], Any]]
    """Dead letters with the records they came of, by the id that the simulator gave these."""


@pytest.fixture(scope="module")
def routed(log: Settings) -> Routed:
    before = end_offsets(log, ["clicks_raw", "clicks", "dead_letter"])
    records = records_of(PLAN, "clicks_raw")
    send(log, records)
    progress, counts = run(log, until_caught_up=True)
    origins = {(r.partition, r.offset): r for rs in committed_since(log, before, "clicks_raw").values() for r in rs}
    letters = {}
    for written in committed_since(log, before, "dead_letter")[0]:
        letter = json.loads(written.value)
        origin = origins[letter["origin"]["partition"], letter["origin"]["offset"]]
        assert written.timestamp == origin.timestamp
        letters[dict(origin.headers)["simulator_id"].decode()] = letter, origin
    return Routed(records, progress, counts, clicks_since(log, before), letters)


def test_every_record_is_where_the_decision_on_it_says_in_order_with_key_and_time(log: Settings, routed: Routed):
    assert (routed.progress.records, routed.progress.lag, routed.progress.retried) == (len(routed.records), 0, 0)
    assert routed.clicks == clicks_of(log, routed.records)


def test_every_click_of_a_visitor_is_there_as_often_as_it_came_and_in_clean_form(routed: Routed):
    clean = records_of(replace(PLAN, edge=False), "clicks")
    visitors = Counter(r.value for r in clean if r.label != "malformed")
    fast = {r.id for r in routed.records if r.kind == "rate"}
    found = Counter(click.value for clicks in routed.clicks.values() for click in clicks if not click.headers)
    first_pages = found - visitors
    assert not visitors - found
    assert {json.loads(value)["event_id"] for value in first_pages} <= fast
    assert routed.counts.dropped["bot: rate"] + first_pages.total() == len(fast)


def test_every_bot_that_says_so_is_counted_and_gone(routed: Routed):
    assert routed.counts.dropped["bot: agent"] == sum(r.kind == "agent" for r in routed.records)


def test_every_broken_record_is_a_dead_letter_with_its_reason_or_kept_for_landing(routed: Routed):
    kept = {dict(c.headers)["simulator_id"].decode() for clicks in routed.clicks.values() for c in clicks if c.headers}
    for record in (r for r in routed.records if r.label == "malformed"):
        if reason := DEAD.get(record.kind):
            letter, origin = routed.letters[record.id]
            assert letter["reason"].startswith(reason)
            assert origin.value == record.value
        else:
            assert record.id in kept
    assert len(routed.letters) == routed.counts.dead


def test_dead_letters_are_as_declared_and_their_records_are_where_they_say(routed: Routed):
    for letter, origin in routed.letters.values():
        Draft202012Validator(topics()["dead_letter"].events).validate(letter)
        assert (letter["sha256"], letter["bytes"]) == (hashlib.sha256(origin.value).hexdigest(), len(origin.value))


def test_nothing_is_left_uncounted(routed: Routed):
    assert routed.counts.kept + routed.counts.dropped.total() == routed.progress.records


TRACE = b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01"
HEADERS = [
    ("cookie", b"ada"),
    ("simulator_id", b"ada@example.com"),
    ("traceparent", TRACE),
    ("traceparent", TRACE + b"\n"),
    ("traceparent", b"\xff"),
]


def test_hostile_records_do_not_stop_it(log: Settings):
    before = end_offsets(log, ["clicks", "dead_letter"])
    grows = json.dumps(raw(product_id=[1e15] * 150_000), separators=(",", ":")).replace("1000000000000000.0", "1e15")
    last = int(time.time() * 1000) + 9 * 10**15  # the broker's message.timestamp.after.max.ms: it refuses a later one
    producer = KafkaProducer(**python_options(log), max_request_size=2_000_000)
    futures = [
        producer.send("clicks_raw", value, key, HEADERS, 0, stamp)
        for value, key, stamp in [
            (b"[" * 1_000_000, b"ada@example.com", 5),
            (grows.encode(), b"ada@example.com", 6),
            (b"x" * 1_040_000, None, 7),
            (None, b"ada@example.com", last),
            (json.dumps(raw()).encode(), b"ada@example.com", 0),
        ]
    ]
    assert [future.get(timeout=300).timestamp for future in futures] == [5, 6, 7, last, 0]
    producer.close()
    progress, counts = run(log, until_caught_up=True)
    assert progress.records == 5
    assert (counts.kept, counts.dead) == (1, 4)
    (kept,) = committed_since(log, before, "clicks")[0]
    assert (kept.key, kept.timestamp, kept.headers) == (user(1).encode(), 0, [("traceparent", TRACE)])
    reasons = [json.loads(r.value)["reason"] for r in committed_since(log, before, "dead_letter")[0]]
    assert reasons == [
        "unreadable: not JSON",
        "malformed: product_id",
        "unreadable: not JSON",
        "unreadable: no value",
    ]


def test_a_rate_bot_is_known_again_after_a_restart(log: Settings):
    bot = [r for r in records_of(Plan(seed=13, events=5_000, edge=True, bots=0.2), "clicks_raw") if r.kind == "rate"]
    mine = [r for r in bot if r.key == bot[0].key]
    before = end_offsets(log, ["clicks"])
    send(log, mine[:20])
    run(log, until_caught_up=True)
    send(log, mine[20:])
    _, counts = run(log, until_caught_up=True)
    assert counts.kept < RouterSettings().bot_pages - 1  # who does not know it again lets so many pass
    assert clicks_since(log, before) == clicks_of(log, mine)


def test_a_missing_log_is_an_error_with_a_hint(fresh_home: Settings):
    with pytest.raises(LakehouseError, match="lakehouse broker start"):
        run(fresh_home)
    assert not fresh_home.home.exists()
