"""Routing: who leaves and why, and what a kept click looks like, whatever the bytes are."""

import json
import random
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from raw_clicks import NOON, decided, raw, records_of, user

from config.declarations import topics
from config.errors import LakehouseError
from config.settings import RouterSettings, Settings
from local.simulator.plan import Plan
from streaming.roles.router.contract import contract, form
from streaming.roles.router.page_rate import PageRate
from streaming.roles.router.routing import Decision, route

SHOPS = [
    Plan(seed=11, events=12_000, edge=True, bots=0.1, malformed=0.02, duplicates=0.02),
    Plan(seed=12, events=60_000, days=3, edge=True),
]


def page_rate() -> PageRate:
    return PageRate(pages=10, span_ms=10_000, reach=1_000)


def decide(value: Any, memory: PageRate | None = None, offset: int = 0) -> Decision:
    raw_bytes = json.dumps(value).encode() if isinstance(value, dict) else value
    return route(contract(), memory or page_rate(), offset, raw_bytes)


def test_a_kept_click_has_lost_its_personal_data():
    kept = json.loads(decide(raw(email="ada@example.com", name="Ada Brown", phone="555-1234", agent="Ada")).value)
    assert kept == raw(ip="198.51.100.0", user_agent=...) | {"agent": "Chrome/desktop"}


def test_a_routed_click_is_byte_for_byte_a_clean_one(settings: Settings):
    plan = Plan(seed=3, events=5_000, edge=True, bots=0)
    clean = records_of(Plan(seed=3, events=5_000, bots=0), "clicks")
    visits = {r.id: r.value for r in clean if r.label != "malformed"}
    records = records_of(plan, "clicks_raw")
    routed = {r.id: d.value for r, d in zip(records, decided(settings, records), strict=True) if r.label != "malformed"}
    assert routed == visits


def test_what_has_its_form_is_kept_and_checked_by_landing():
    for name, value in {"event_time": "2026-13-45T99:00:00.000Z", "dwell_ms": 0, "quantity": None}.items():
        decision = decide(raw(**{name: value}))
        assert decision.outcome == "kept"
        assert json.loads(decision.value)[name] == value


NOT_OF_ITS_FORM: dict[str, list[Any]] = {
    "event_id": ["ada@example.com", "4915112345678", "198.51.100.77", "e" * 32 + "\n", "E" * 32],
    "type": ["ada@example.com", "teleported"],
    "event_time": ["ada@example.com", "2026-01-05", "2026-01-05T12:00:00.000Z ada"],
    "schema_version": [99, 4915112345678, True, 1.0],
    "user_id": ["ada@example.com", "Ada Brown", "+49 151 12345678", "u1", "\ud83d"],
    "product_id": ["ada@example.com", "p000１"],  # the last digit is not an ASCII one
    "dwell_ms": [-1, 4915112345678, 1e300, "1500"],
    "impression_id": ["ada@example.com"],
    "quantity": [0, 4915112345678],
}
NESTED: list[Any] = [{"email": "ada@example.com"}, ["ada@example.com"], [[{"phone": 4915112345678}]]]


@pytest.mark.parametrize("name", NOT_OF_ITS_FORM)
def test_a_field_that_is_not_of_its_form_makes_a_dead_letter(name: str):
    for value in [*NOT_OF_ITS_FORM[name], *NESTED]:
        assert decide(raw(**{name: value})) == ("dead", f"malformed: {name}", "", b""), value


def test_every_field_that_is_kept_has_a_declared_form():
    assert set(NOT_OF_ITS_FORM) == set(contract().kept)


@pytest.mark.parametrize(
    "declared",
    [
        {"type": "string"},
        {"type": "integer"},
        {"type": "integer", "minimum": 0},
        {"type": "number", "minimum": 0, "maximum": 1},
        {"type": "object", "properties": {"email": {"type": "string"}}},
        {"type": "array", "items": {"type": "string"}},
    ],
)
def test_a_declaration_that_leaves_the_form_open_is_refused(declared: dict[str, Any]):
    with pytest.raises(LakehouseError, match=r"comment: .* could carry personal data") as error:
        form("comment", declared)
    assert "pattern" in error.value.hint


@pytest.mark.parametrize("said", ["Googlebot/2.1", "python-requests/2.32.3", "curl/8.11.0", "X HeadlessChrome/131.0"])
def test_a_bot_that_says_so_leaves(said: str):
    assert decide(raw(user_agent=said)) == ("dropped", "bot: agent", "", b"")


@pytest.mark.parametrize("name", topics()["clicks_raw"].events["required"])
def test_a_record_without_a_required_field_is_a_dead_letter_without_content(name: str):
    for without in (..., None):
        assert decide(raw(email="ada@example.com", **{name: without})) == ("dead", f"missing: {name}", "", b"")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("page_view", "dwell_ms"),
        ("impression", "impression_id"),
        ("click", "impression_id"),
        ("add_to_cart", "quantity"),
    ],
)
def test_some_fields_are_required_of_some_types_only(kind: str, name: str):
    assert decide(raw(type=kind, dwell_ms=...)).reason == f"missing: {name}"
    present = {"dwell_ms": 1, "impression_id": "i" + "0" * 16, "quantity": 1}[name]
    assert decide(raw(**{"type": kind, "dwell_ms": ..., name: present})).outcome == "kept"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "no value"),
        (b"", "empty"),
        (b"<html>502 Bad Gateway</html>", "not JSON"),
        (b'{"event_id":"e1","type":"pa', "not JSON"),
        (b"\xff\xfe\x00\x80", "not UTF-8"),
        ("{}".encode("utf-16"), "not UTF-8"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b"[1]", "not an object"),
        (b'"text"', "not an object"),
        (b"NaN", "not JSON"),
        (b'{"dwell_ms":NaN}', "not JSON"),
        (b'{"dwell_ms":-Infinity}', "not JSON"),
        (b'{"dwell_ms":' + b"9" * 5_000 + b"}", "not JSON"),
        (b'{"dwell_ms":' + b"[" * 1_000 + b"]" * 1_000 + b"}", "not JSON"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "not JSON"),
        (b"ada@example.com", "not JSON"),
    ],
)
def test_what_cannot_be_read_is_a_dead_letter_without_content(value: bytes | None, reason: str):
    assert decide(value) == ("dead", f"unreadable: {reason}", "", b"")


def test_of_a_field_given_twice_the_last_counts_once():
    value = json.dumps(raw()).replace('"user_id"', '"user_id": "u0", "user_id"').encode()
    assert decide(value).value.count(b"user_id") == 1


@given(st.binary() | st.text().map(str.encode))
def test_no_bytes_make_it_fail(value: bytes):
    assert decide(value).outcome in ("dead", "dropped", "kept")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
PERSONAL = ("ada.brown@example.com", "Ada Brown", "+49 151 12345678", "198.51.100.77", 4915112345678, 3325256781)
SPELLED = [str(value).encode() for value in PERSONAL]
ODDLY = st.sampled_from(PERSONAL).flatmap(
    lambda value: st.sampled_from(
        [
            value,
            [value],
            {"email": value},
            {str(value): 1},
            [[{"a": [value]}]],
            f"x {value}",
            f"{value}\n",
            [1, [value]],
        ]
    )
)
FIELDS = st.dictionaries(
    st.sampled_from([*raw(), "impression_id", "quantity", "email", "name", "agent", "Ada Brown"]),
    JSON | ODDLY | st.just(...),
)


@given(FIELDS)
def test_no_values_make_it_fail_and_no_personal_data_passes(fields: dict[str, Any]):
    decision = decide(json.dumps(raw(**fields)).encode())
    assert not [value for value in SPELLED if value in decision.value + decision.reason.encode()]
    if decision.outcome == "kept":
        written = json.loads(decision.value)
        assert set(written) <= set(topics()["clicks"].events["properties"])
        assert all(value is None or type(value) in (str, int) for value in written.values())


def pages(memory: PageRate, seconds: list[float], first: int = 0) -> list[str]:
    """Let a user look at pages at some times, and say what becomes of each."""
    times = [(NOON + timedelta(seconds=at)).isoformat(timespec="milliseconds") for at in seconds]
    return [
        decide(raw(event_time=time.replace("+00:00", "Z")), memory, first + number).outcome
        for number, time in enumerate(times)
    ]


def test_pages_faster_than_people_can_read_are_a_bots_from_the_tenth_on():
    assert pages(page_rate(), [n * 0.15 for n in range(40)]) == ["kept"] * 9 + ["dropped"] * 31


def test_a_hasty_visitor_is_no_bot():
    assert set(pages(page_rate(), [n * 2.5 for n in range(40)])) == {"kept"}


def test_pages_that_come_out_of_order_are_counted_where_they_happened():
    times = [n * 0.15 for n in range(40)]
    random.Random(1).shuffle(times)
    assert pages(page_rate(), times)[12:] == ["dropped"] * 28


def test_a_page_view_that_is_sent_again_and_again_is_no_pace():
    assert set(pages(page_rate(), [1.0] * 40)) == {"kept"}


def test_what_else_a_bot_does_among_its_pages_leaves_with_them():
    memory = page_rate()
    pages(memory, [n * 0.15 for n in range(20)])
    assert decide(raw(type="add_to_cart", quantity=1), memory, 20).reason == "bot: rate"
    assert decide(raw(type="add_to_cart", quantity=1, user_id=user(2)), memory, 21).outcome == "kept"


@pytest.mark.parametrize("plan", SHOPS)
def test_of_the_simulators_bots_only_first_pages_pass_and_no_visitor_is_taken_for_one(settings: Settings, plan: Plan):
    records = records_of(plan, "clicks_raw")
    found = list(zip(records, decided(settings, records), strict=True))
    assert {d.reason for r, d in found if r.kind == "agent"} == {"bot: agent"}
    assert not [r for r, d in found if r.label != "bot" and d.reason.startswith("bot")]
    fast = [(r, d) for r, d in found if r.kind == "rate"]
    passed = Counter(r.key for r, d in fast if d.outcome == "kept")
    # Nine pages are nobody's page_rate; some more may be under way while others have come already.
    assert max(passed.values()) <= RouterSettings().bot_pages + 4
    assert passed.total() < 0.1 * len(fast)
