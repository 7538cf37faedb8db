"""Hostile records: values that the simulator never makes, from a seed; the oracle says what becomes of them.

Each scenario sends events at the exact edges of windows, joins and sessions, with odd strings as ids. Two events with
one id in one hour have one key, so that their order in the log does not depend on how partitions are read.
"""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from gold import numbered
from handmade import iso

from config.declarations import topics
from local.simulator.keys import partition_of

START = datetime(2026, 1, 5, 22, tzinfo=UTC)
MS, SECOND, MINUTE, HOUR = (timedelta(**{name: 1}) for name in ("milliseconds", "seconds", "minutes", "hours"))
BIGGEST = 2**63 - 1
MOST = 10**11
"""The largest amount that is plausible."""

STRINGS = (
    *("", " ", "null", "NULL", "NaN", "-0", "1e3", "0", "true", "[/x]", "%s", "{x}", "${y}", "a b", "a,b", "a/b"),
    *("'; drop table t; --", '"', "\\", "\\n", "\\u0041", "\t", "\n", "\x00", "\x1b[31m", "\x7f", "\ufeff", "\uffff"),
    *("é", "e\u0301", "ß", "İ", "ſ", "ي\u200f", "\u2028", "\u202e", "👩‍👩‍👧", "𝕏", "\U0010ffff", "Z", "z", "中文"),
    *("x" * 3_000, "é" * 2_000),
)
NEAR = (timedelta(0), MS, -MS)
LAGS = (timedelta(0), MS, SECOND, 9 * MINUTE, 10 * MINUTE, 10 * MINUTE + MS, 3 * HOUR, -2 * MINUTE, -2 * MINUTE - MS)
"""Arrival after the event, up to what is allowed, and a millisecond more, on both sides."""

BROKEN = (
    *(None, b"", b" ", b"{", b"}", b"{}", b"[]", b"null", b"true", b'"x"', b"7", b"\xff\xfe", b"\xed\xa0\x80"),
    *(b"\xef\xbb\xbf{}", b'{"event_id": "a"', b'{"event_id": "a",}', b'{"event_id": "a"} {}', b"{'a': 1}"),
    *(b'{"event_id": "a", "event_id": "b"}', b'{"event_id": NaN}', b"\x00" * 20),
    *(b"[" * 500, b'{"a":' * 200 + b"1" + b"}" * 200),
)
FIELDS = {
    "event_id": (None, 7, [], {}, True),
    "type": ("", "Page_View", "deleted", None, 1),
    "event_time": ("", "now", "2026-01-05", "2026-01-05T12:00:00Z", "2026-02-30T12:00:00.000Z",
                   "0001-01-01T00:00:00.000Z", "2026-01-05T24:00:00.000Z",
                   "2026-01-05T23:59:60.000Z", "9999-12-31T23:59:59.999Z", 0, None,
                   "1999-12-31T23:59:59.999Z", "2000-01-01T00:00:00.000Z", "2026-01-05T12:00:00.000+01:00"),
    "schema_version": (0, 2, "1", None, BIGGEST),
    "dwell_ms": (-1, 0, 86_400_000, 86_400_001, BIGGEST, -BIGGEST, BIGGEST + 1, "5", None, 10**30),
    "quantity": (0, -1, 1, BIGGEST, BIGGEST + 1, 1.5, "", None),
    "amount_cents": (-1, -BIGGEST - 1, -BIGGEST - 2, 0, 1, MOST, MOST + 1, BIGGEST, BIGGEST + 1, 0.5, "5", False, None),
    "country": ("", "de", "DEU", "DE\n", "\nDE", "D", "ＤＥ", "ÄÖ", None),
    "status": ("", "Paid", "lost", None),
    "method": ("cash", "", None),
    "op": ("x", "", None),
    "after": ({}, [], None, {"tier": "wood"}, {"tier": None}, {"country": "x"}, {"tier": "gold", "more": 1}),
    "user_id": (None, 5), "product_id": (None, {}), "more": (None, 1.5, {"a": {"a": 1}}, ["x"]),
}  # fmt: skip
"""Other values of a field, most of them against its contract."""

Event = tuple[str, dict[str, Any], datetime]
"""Topic, event, arrival."""


class Hostile:
    """Makes events, scenario by scenario."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.made = 0

    def scenarios(self) -> list[Callable[[datetime], Iterator[Event]]]:
        """List what can happen at some moment."""
        return [self.visit, self.advertisement, self.order, self.strangers, self.changes, self.reused]

    def event(self, kind: str, at: datetime, event_id: str | None = None, **fields: Any) -> Event:
        """Make one event, with its arrival."""
        topic, form = KINDS[kind]
        self.made += 1
        odd = self.random.choice(STRINGS) if self.random.random() < 0.1 else "e"
        named = {"event_id": event_id or f"{odd}{self.made}", "type": kind, "event_time": iso(at), "schema_version": 1}
        late = self.random.choice(LAGS) if self.random.random() < 0.15 else SECOND * self.random.randrange(1, 60)
        return topic, named | form | fields, at + late

    def name(self, what: str) -> str:
        """Choose one of few names, half of them odd."""
        return self.random.choice(STRINGS) if self.random.random() < 0.5 else f"{what}{self.random.randrange(20)}"

    def visit(self, at: datetime) -> Iterator[Event]:
        """View pages just within, at and just beyond the gap of a session, on the edges of minutes."""
        user, near = self.name("u"), self.random.choice(NEAR)
        for _ in range(self.random.randrange(1, 5)):
            dwell_ms = self.random.randrange(99)
            yield self.event("page_view", at, user_id=user, product_id=self.name("p"), dwell_ms=dwell_ms)
            at += self.random.choice((timedelta(0), MINUTE, 30 * MINUTE)) + near

    def advertisement(self, at: datetime) -> Iterator[Event]:
        """Click on an advertisement around the five minutes, sometimes shown twice, with an id used in two hours."""
        names = {"user_id": self.name("u"), "product_id": self.name("p"), "impression_id": f"i{self.made}"}
        again = self.random.choice((None, f"again{self.made}"))
        for after in self.random.sample((timedelta(0), MINUTE, 5 * MINUTE), self.random.randrange(1, 3)):
            yield self.event("impression", at + after, **names)
        for after in (-MS, timedelta(0), 3 * MINUTE, 5 * MINUTE, 5 * MINUTE + MS):
            yield self.event("click", at + after, again if after in (-MS, timedelta(0)) else None, **names)

    def order(self, at: datetime) -> Iterator[Event]:
        """Place, pay and cancel an order, each up to three times, in any order, on one day or on several."""
        order = f"{self.name('o')}{self.made}"
        user, product = self.name("u"), self.name("p")
        amount = self.random.choice((0, 1, 500, *[MOST] * 6, MOST + 1))
        often = self.random.choice((0, 1, 1, 1, 2, 3))
        placed = [at + self.random.choice((timedelta(0), MS, HOUR, 26 * HOUR)) * n for n in range(often)]
        for when in placed:
            for before in self.random.sample((timedelta(0), MS, HOUR, 24 * HOUR, 24 * HOUR + MS, -MS), 2):
                yield self.event("add_to_cart", when - before, user_id=user, product_id=product, quantity=1)
            yield self.event(
                "order_placed", when, order_id=order, user_id=user, product_id=product, amount_cents=amount
            )  # fmt: skip
        for after in self.random.sample((-MS, timedelta(0), HOUR, HOUR - MS, HOUR + MS, MINUTE, MINUTE), 3):
            # Often, so that one merchant has several of them in an hour.
            amount = self.random.choice((*[MOST] * 6, MOST + 1, self.random.randrange(1_000)))
            yield self.event("payment_received", at + after, order_id=order, amount_cents=amount, merchant_id="m1")
        for status in self.random.choices(("paid", "cancelled", "cancelled", "shipped"), k=3):
            after = self.random.choice((timedelta(0), MINUTE, HOUR))
            yield self.event("order_status_changed", at + after, order_id=order, status=status)

    def strangers(self, at: datetime) -> Iterator[Event]:
        """Pay and change orders that nobody placed."""
        order = self.name("stranger")
        yield self.event("payment_received", at, order_id=order, merchant_id=self.name("m"))
        yield self.event("payment_failed", at, order_id=order, reason=self.random.choice(STRINGS))
        yield self.event("order_status_changed", at, order_id=order, status="paid")

    def changes(self, at: datetime) -> Iterator[Event]:
        """Change a user several times at one moment, or delete one that never was."""
        user = self.name("u")
        for tier in self.random.choices(("bronze", "silver", "gold", "platinum", None), k=self.random.randrange(1, 4)):
            op = self.random.choice(("c", "u", "d"))
            yield self.event("user_changed", at, user_id=user, op=op, after={"tier": tier, "country": "DE"})

    def reused(self, at: datetime) -> Iterator[Event]:
        """Use one id again: in this hour, on both sides of the full hour, and on another day."""
        user = self.random.choice(STRINGS)
        full = at.replace(minute=0, second=0, microsecond=0) + HOUR
        for when in (at, full - MS, full, full + 24 * HOUR):
            yield self.event("page_view", when, f"reused {user}", user_id=user, product_id=self.name("p"))


KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "page_view": ("clicks", {"product_id": "p1", "dwell_ms": 0}),
    "impression": ("clicks", {}),
    "click": ("clicks", {}),
    "add_to_cart": ("clicks", {"quantity": 1}),
    "order_placed": ("orders", {"merchant_id": "m1", "quantity": 1}),
    "order_status_changed": ("orders", {}),
    "payment_received": ("payments", {"payment_id": "y", "merchant_id": "m1", "amount_cents": 5, "country": "DE"}),
    "payment_failed": ("payments", {"payment_id": "y", "merchant_id": "m1", "amount_cents": 5, "country": "DE"}),
    "user_changed": ("users", {"before": {"tier": "bronze"}}),
}


def hostile(records: int, seed: int = 1, length: timedelta = timedelta(days=3)) -> list[tuple[Any, ...]]:
    """Make about as many records, in the order of arrival; all changes of users come first."""
    made, random = Hostile(seed), Random(-seed)
    sent: list[tuple[str, bytes | None, bytes | None, datetime]] = []
    while len(sent) < records:
        at = START + 5 * MINUTE * random.randrange(length // (5 * MINUTE)) + random.choice(NEAR)
        for topic, event, arrival in random.choice(made.scenarios())(at):
            sent += _sent(topic, event, arrival, random)
    # Partitions are read in the order of arrival; what arrived at one moment, in the order in which it was sent.
    sent.sort(key=lambda record: (record[0] != "users", record[3]))
    return numbered(
        (topic, partition_of(key or b"", topics()[topic].partitions), key, value, arrival)
        for topic, key, value, arrival in sent
    )


def _sent(topic: str, event: dict[str, Any], arrival: datetime, random: Random) -> Iterator[tuple[Any, ...]]:
    """Send an event: as it is, damaged, or several times."""
    key = event[str(topics()[topic].key)].encode()
    chance = random.random()
    if chance < 0.03:
        yield topic, random.choice((key, b"", None, b"\xff")), random.choice(BROKEN), arrival
    elif chance < 0.10:
        field = random.choice([name for name in FIELDS if name in event or name == "more"])
        yield topic, key, _written(event | {field: random.choice(FIELDS[field])}, random), arrival
    else:
        value = _written(event, random)
        yield topic, key if chance > 0.11 else b"another", value, arrival
        if chance > 0.95:
            yield topic, key, value, arrival + random.choice((timedelta(0), SECOND, 11 * MINUTE, 3 * HOUR))


def _written(event: dict[str, Any], random: Random) -> bytes:
    """Write an event in one of the ways that JSON allows."""
    pairs = list(event.items())
    if random.random() < 0.1:
        random.shuffle(pairs)
    separators = random.choice(((",", ":"), (", ", ": ")))
    return json.dumps(dict(pairs), ensure_ascii=random.random() < 0.5, separators=separators).encode()
