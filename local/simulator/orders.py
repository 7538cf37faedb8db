"""Orders: from the cart to the door, with the payments that succeed, fail, come late or never come."""

import numpy as np

from local.simulator.clock import HOUR, MINUTE
from local.simulator.columns import Text, chosen, fixed, hexed, joined, numbers, taken, words
from local.simulator.events import Events, Keys, new_keys
from local.simulator.goods import CENTS, MERCHANT_IDS, MERCHANT_OF, PRODUCT_IDS
from local.simulator.people import People
from local.simulator.rng import Dice, Ints

_METHODS = words("card", "card", "card", "card", "wallet", "wallet", "transfer")
_REASONS = words("insufficient_funds", "card_expired", "declined_by_bank", "provider_timeout", "provider_timeout")
_NEVER, _FAILS, _SLOW = 0.03, 0.11, 0.15


def orders(people: People, who: Ints, product: Ints, quantity: Ints, cart: Ints, dice: Dice) -> list[Events]:
    """Tell the orders that came of carts, from their placing to their end."""
    n = len(who)
    keys = new_keys("o", dice, n)
    # Most order within minutes; some sleep over it, but not longer than the day the joiner waits.
    soon, slept = 20_000 + dice.small(30 * MINUTE, n), HOUR + dice.below(22 * HOUR, n)
    at = cart + np.where(dice.chance(0.85, n), soon, slept)
    users, merchants = taken(people.keys.text, who), taken(MERCHANT_IDS, MERCHANT_OF[product])
    cents = numbers(CENTS[product] * quantity)
    payload = joined(
        *('"order_id":"', keys.text, '","user_id":"', users, '","product_id":"', taken(PRODUCT_IDS, product)),
        *('","merchant_id":"', merchants, '","quantity":', numbers(quantity), ',"amount_cents":', cents, "}"),
    )
    placed = Events("orders", "order_placed", at, who, keys, payload)
    opening = joined('"user_id":"', users, '","merchant_id":"', merchants, '","amount_cents":', cents)
    paid, payments = _payments(people, who, keys, at, opening, dice)
    return [placed, *payments, *_statuses(who, keys, at, paid, dice)]


def _payments(people: People, who: Ints, keys: Keys, at: Ints, opening: Text, dice: Dice) -> tuple[Ints, list[Events]]:
    """Tell when each order was paid, or -1, and the payments that were tried."""
    n = len(who)
    method = taken(_METHODS, dice.below(len(_METHODS), n))
    # One in fifty pays from elsewhere: what a search for fraud has to live with.
    country = chosen(dice.chance(0.02, n), "BR", taken(people.countries, who))
    opening = joined(opening, ',"method":"', method, '","country":"', country, '"')

    def payments(kind: str, row: Ints, times: Ints, more: str | Text) -> Events:
        paying = keys.take(row)
        ids = fixed(hexed("y", dice.octets(len(row), 6)))
        rest = taken(opening, row)
        payload = joined('"order_id":"', paying.text, '","payment_id":"', ids, '",', rest, more, "}")
        return Events("payments", kind, times, who[row], paying, payload)

    case = dice.floats(n)
    tried = at + 5_000 + dice.small(50 * MINUTE, n)
    row = np.flatnonzero((case >= _NEVER) & (case < _FAILS))
    reasons = joined(',"reason":"', taken(_REASONS, dice.below(len(_REASONS), len(row))), '"')
    failed = payments("payment_failed", row, tried[row], reasons)
    # Half of those who fail try again; some pay later than the joiner waits.
    again = dice.chance(0.5, n)
    paid = np.select(
        [case < _NEVER, (case < _FAILS) & ~again, case < _FAILS, case < _SLOW],
        [-1, -1, tried + MINUTE + dice.below(20 * MINUTE, n), at + HOUR + dice.below(2 * HOUR, n)],
        tried,
    )
    row = np.flatnonzero(paid >= 0)
    return paid, [failed, payments("payment_received", row, paid[row], "")]


def _statuses(who: Ints, keys: Keys, at: Ints, paid: Ints, dice: Dice) -> list[Events]:
    n = len(who)

    def status(name: str, row: Ints, times: Ints) -> Events:
        those = keys.take(row)
        payload = joined('"order_id":"', those.text, f'","status":"{name}"}}')
        return Events("orders", "order_status_changed", times, who[row], those, payload)

    everyone = np.arange(n)
    given_up = np.flatnonzero(paid < 0)
    cancelled = paid >= 0
    cancelled &= dice.chance(0.02, n)
    row = np.flatnonzero(cancelled)
    found = [
        status("placed", everyone, at + 5 + dice.below(50, n)),
        status("cancelled", given_up, at[given_up] + 4 * HOUR + dice.below(4 * HOUR, len(given_up))),
        status("paid", np.flatnonzero(paid >= 0), paid[paid >= 0] + 50 + dice.below(2_000, int((paid >= 0).sum()))),
        status("cancelled", row, paid[row] + 3_000 + dice.below(HOUR, len(row))),
    ]
    row = np.flatnonzero((paid >= 0) & ~cancelled)
    step = paid[row]
    # A shop of the same city: most of what is ordered in the morning is there in the evening.
    for name, least, spread in (("packed", 10, 110), ("shipped", 20, 220), ("delivered", 40, 320)):
        step = step + least * MINUTE + dice.below(spread * MINUTE, len(row))
        found.append(status(name, row, step))
    return found
