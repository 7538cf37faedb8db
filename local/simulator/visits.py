"""Visits: page views, advertisements, carts and orders."""

import numpy as np

from local.simulator.clock import DAY, HOUR, HOURS, MINUTE, since_first
from local.simulator.columns import Text, fixed, hexed, joined, numbers, taken
from local.simulator.events import Events
from local.simulator.goods import PRODUCT_IDS, pick
from local.simulator.orders import orders
from local.simulator.people import People
from local.simulator.plan import Plan
from local.simulator.rng import Ints, StableRandom

_VISITS_PER_DAY = (0, 1, 1, 1, 2, 2, 2, 3, 4, 6)
_PAGES = (1, 1, 2, 2, 3, 4, 5, 6, 8, 10, 13, 17)

# Probabilities of follow-up events; about one visit in ten ends with an order.
_IMPRESSION = 0.35
_CLICK = 0.12
_SLOW_CLICK = 0.08
_CART = 0.065
_ORDER = 0.33


def visit_times(plan: Plan, people: int, rng: StableRandom) -> tuple[Ints, Ints]:
    """Draw visits by the daily curve; everyone comes at least once, in a live run exactly once."""
    if plan.live is not None:
        return np.arange(people), plan.start_ms + rng.below(plan.end_ms - plan.start_ms, people)
    counts = rng.pick(_VISITS_PER_DAY, people * plan.days).reshape(people, plan.days)
    absent = np.flatnonzero(counts.sum(axis=1) == 0)
    counts[absent, rng.below(plan.days, len(absent))] = 1
    who, day = np.divmod(np.repeat(np.arange(people * plan.days), counts.ravel()), plan.days)
    n = len(who)
    # The curve follows the time of day, whenever the period starts.
    since_start = (rng.pick(HOURS, n) + rng.below(HOUR, n) - plan.start_ms) % DAY
    return who, plan.start_ms + day * DAY + since_start


def visits(people: People, who: Ints, begin: Ints, topic: str, plan: Plan, rng: StableRandom) -> list[Events]:
    """Return the events of the visits that `who` starts at `begin`; clicks go to `topic`."""
    pages = rng.pick(_PAGES, len(who))
    visit = np.repeat(np.arange(len(who)), pages)
    who, n = who[visit], len(visit)
    # The pause between pages lets a router tell people from bots by their page rate.
    dwell = 300 + rng.small(180_000, n)  # some leave at once
    steps = dwell + 500 + rng.below(10_000, n)
    at = begin[visit] + since_first(steps, pages)
    product = pick(rng, plan.hot_key, n)
    viewed = _clicks(people, topic, "page_view", who, at, product, joined('"dwell_ms":', numbers(dwell), ","))
    shown = np.flatnonzero(rng.chance(_IMPRESSION, n))
    advertisements = _advertisements(people, topic, who[shown], at[shown] + 100, plan, rng)
    row = np.flatnonzero(rng.chance(_CART, n))
    buyer, product = who[row], product[row]
    quantity = 1 + rng.small(5, len(row), times=4)
    put = at[row] + (dwell[row] * (0.3 + 0.7 * rng.floats(len(row)))).astype(np.int64)
    carts = _clicks(people, topic, "add_to_cart", buyer, put, product, joined('"quantity":', numbers(quantity), ","))
    row = np.flatnonzero(rng.chance(_ORDER, len(row)))
    return [viewed, *advertisements, carts, *orders(people, buyer[row], product[row], quantity[row], put[row], rng)]


def _advertisements(people: People, topic: str, who: Ints, at: Ints, plan: Plan, rng: StableRandom) -> list[Events]:
    n = len(who)
    at = at + rng.below(900, n)
    product = pick(rng, plan.hot_key, n)
    ids = joined('"impression_id":"', fixed(hexed("i", rng.octets(n, 8))), '",')
    shown = _clicks(people, topic, "impression", who, at, product, ids)
    row = np.flatnonzero(rng.chance(_CLICK, n))
    n = len(row)
    # The joiner waits five minutes; some clicks come later.
    slow = 5 * MINUTE + rng.below(15 * MINUTE, n)
    waits = np.where(rng.chance(_SLOW_CLICK, n), slow, 800 + rng.small(4 * MINUTE, n, times=3))
    clicked = _clicks(people, topic, "click", who[row], at[row] + 1 + waits, product[row], taken(ids, row))
    return [shown, clicked]


def _clicks(people: People, topic: str, kind: str, who: Ints, at: Ints, product: Ints, more: Text) -> Events:
    keys = people.keys.take(who)
    products, devices = taken(PRODUCT_IDS, product), taken(people.devices, who)
    payload = joined('"user_id":"', keys.text, '","product_id":"', products, '",', more, devices)
    return Events(topic, kind, at, who, keys, payload)
