"""Orders from cart to delivery, with payments that succeed, fail, come late or never come."""

import numpy as np

from local.simulator.clock import HOUR, MINUTE
from local.simulator.columns import Text, chosen, fixed, hexed, joined, numbers, taken, words
from local.simulator.events import Events, Keys, new_keys
from local.simulator.goods import CENTS, MERCHANT_IDS, MERCHANT_OF, PRODUCT_IDS
from local.simulator.people import People
from local.simulator.rng import Ints, StableRandom

_METHODS = words("card", "card", "card", "card", "wallet", "wallet", "transfer")
_REASONS = words("insufficient_funds", "card_expired", "declined_by_bank", "provider_timeout", "provider_timeout")
_NEVER, _FAILS, _SLOW = 0.03, 0.11, 0.15


def orders(people: People, who: Ints, product: Ints, quantity: Ints, cart: Ints, rng: StableRandom) -> list[Events]:
    """Return all events of the orders that follow from carts."""
    n = len(who)
    keys = new_keys("o", rng, n)
    # Most people order within minutes; some wait, but less than the day that the joiner allows.
    soon, later = 20_000 + rng.small(30 * MINUTE, n), HOUR + rng.below(22 * HOUR, n)
    at = cart + np.where(rng.chance(0.85, n), soon, later)
    users, merchants = taken(people.keys.text, who), taken(MERCHANT_IDS, MERCHANT_OF[product])
    cents = numbers(CENTS[product] * quantity)
    payload = joined(
        *('"order_id":"', keys.text, '","user_id":"', users, '","product_id":"', taken(PRODUCT_IDS, product)),
        *('","merchant_id":"', merchants, '","quantity":', numbers(quantity), ',"amount_cents":', cents, "}"),
    )
    placed = Events("orders", "order_placed", at, who, keys, payload)
    opening = joined('"user_id":"', users, '","merchant_id":"', merchants, '","amount_cents":', cents)
    paid, payments = _payments(people, who, keys, at, opening, rng)
    return [placed, *payments, *_statuses(who, keys, at, paid, rng)]


def _payments(
    people: People, who: Ints, keys: Keys, at: Ints, opening: Text, rng: StableRandom
) -> tuple[Ints, list[Events]]:
    """Return when each order was paid (-1: never), and the payment events."""
    n = len(who)
    method = taken(_METHODS, rng.below(len(_METHODS), n))
    # One in fifty pays from another country: noise for fraud detection.
    country = chosen(rng.chance(0.02, n), "BR", taken(people.countries, who))
    opening = joined(opening, ',"method":"', method, '","country":"', country, '"')

    def payments(kind: str, row: Ints, times: Ints, more: str | Text) -> Events:
        paying = keys.take(row)
        ids = fixed(hexed("y", rng.octets(len(row), 6)))
        rest = taken(opening, row)
        payload = joined('"order_id":"', paying.text, '","payment_id":"', ids, '",', rest, more, "}")
        return Events("payments", kind, times, who[row], paying, payload)

    case = rng.floats(n)
    tried = at + 5_000 + rng.small(50 * MINUTE, n)
    row = np.flatnonzero((case >= _NEVER) & (case < _FAILS))
    reasons = joined(',"reason":"', taken(_REASONS, rng.below(len(_REASONS), len(row))), '"')
    failed = payments("payment_failed", row, tried[row], reasons)
    # Half of the failed payments are tried again; some payments come later than the joiner waits.
    again = rng.chance(0.5, n)
    paid = np.select(
        [case < _NEVER, (case < _FAILS) & ~again, case < _FAILS, case < _SLOW],
        [-1, -1, tried + MINUTE + rng.below(20 * MINUTE, n), at + HOUR + rng.below(2 * HOUR, n)],
        tried,
    )
    row = np.flatnonzero(paid >= 0)
    return paid, [failed, payments("payment_received", row, paid[row], "")]


def _statuses(who: Ints, keys: Keys, at: Ints, paid: Ints, rng: StableRandom) -> list[Events]:
    n = len(who)

    def status(name: str, row: Ints, times: Ints) -> Events:
        those = keys.take(row)
        payload = joined('"order_id":"', those.text, f'","status":"{name}"}}')
        return Events("orders", "order_status_changed", times, who[row], those, payload)

    everyone = np.arange(n)
    given_up = np.flatnonzero(paid < 0)
    cancelled = paid >= 0
    cancelled &= rng.chance(0.02, n)
    row = np.flatnonzero(cancelled)
    found = [
        status("placed", everyone, at + 5 + rng.below(50, n)),
        status("cancelled", given_up, at[given_up] + 4 * HOUR + rng.below(4 * HOUR, len(given_up))),
        status("paid", np.flatnonzero(paid >= 0), paid[paid >= 0] + 50 + rng.below(2_000, int((paid >= 0).sum()))),
        status("cancelled", row, paid[row] + 3_000 + rng.below(HOUR, len(row))),
    ]
    row = np.flatnonzero((paid >= 0) & ~cancelled)
    step = paid[row]
    # A shop in the same city: most morning orders are delivered by the evening.
    for name, least, spread in (("packed", 10, 110), ("shipped", 20, 220), ("delivered", 40, 320)):
        step = step + least * MINUTE + rng.below(spread * MINUTE, len(row))
        found.append(status(name, row, step))
    return found
