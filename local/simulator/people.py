"""The shop's users: their attributes, their browsers, and the changes of the users table."""

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from local.simulator.clock import HOUR, MINUTE
from local.simulator.columns import Text, chosen, joined, numbers, taken, words
from local.simulator.events import Events, Keys, new_keys
from local.simulator.plan import Plan
from local.simulator.rng import Ints, StableRandom

TIERS = ("bronze", "silver", "gold", "platinum")
_TIERS = words(*TIERS)
_COUNTRIES = words("AT", "BE", "CH", "DE", "DE", "DE", "DK", "ES", "FR", "FR", "GB", "IT", "NL", "PL", "SE", "US")
_FIRST = words("Ada", "Björn", "Chloé", "Dilan", "Farid", "Grace", "Håkon", "Ines", "Jan", "Kaja", "Luís", "Maya")
_LAST = words("Ahmed", "Brown", "Costa", "Dubois", "Fischer", "García", "Hansen", "Ito", "Jansen", "O'Neil", "Şahin")
# User agent -> what the edge keeps of it: browser family and device.
AGENTS = {
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/131.0.0.0 Safari/537.36": "Chrome/desktop",
    "Mozilla/5.0 (Linux; Android 14) AppleWebKit/537.36 Chrome/131.0.0.0 Mobile Safari/537.36": "Chrome/mobile",
    "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0": "Firefox/desktop",
    "Mozilla/5.0 (Android 14; Mobile; rv:133.0) Gecko/133.0 Firefox/133.0": "Firefox/mobile",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_7) AppleWebKit/605.1.15 Version/18.1 Safari/605.1.15": "Safari/desktop",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) Version/18.1 Mobile Safari/604.1": "Safari/mobile",
}
_RAW_AGENTS, _CLEAN_AGENTS = words(*AGENTS), words(*AGENTS.values())


@dataclass(frozen=True)
class People:
    """Users of the shop, one row each; `devices` is the JSON that their browser adds to every click."""

    keys: Keys
    tiers: Ints
    countries: Text
    emails: Text
    devices: Text

    def __len__(self) -> int:
        return len(self.tiers)


def new_people(rng: StableRandom, n: int, edge: bool) -> People:
    """Draw users; the draws are the same with and without edge, so that both simulate the same shop."""
    keys = new_keys("u", rng, n)
    emails = joined(pc.utf8_slice_codeunits(keys.text, 1), "@example.com")
    names = joined(taken(_FIRST, rng.below(len(_FIRST), n)), " ", taken(_LAST, rng.below(len(_LAST), n)))
    network = joined("198.", numbers(18 + rng.below(2, n)), ".", numbers(rng.below(256, n)), ".")
    host, agent, shared = numbers(1 + rng.below(254, n)), rng.below(len(AGENTS), n), rng.floats(n)
    if edge:
        # Some are logged in, and for some of those the page also sends the name.
        email = chosen(shared < 0.2, joined(',"email":"', emails, '"'), "")
        name = chosen(shared < 0.1, joined(',"name":"', names, '"'), "")
        devices = joined('"ip":"', network, host, '","user_agent":"', taken(_RAW_AGENTS, agent), '"', email, name, "}")
    else:
        devices = joined('"ip":"', network, '0","agent":"', taken(_CLEAN_AGENTS, agent), '"}')
    return People(keys, rng.small(4, n), taken(_COUNTRIES, rng.below(len(_COUNTRIES), n)), emails, devices)


def changes(people: People, first: Ints, plan: Plan, rng: StableRandom) -> list[Events]:
    """Return the changes of the users table for people whose first click is at `first`: insert, new tiers, delete."""
    n = len(people)
    created, delay = _creation(first, plan, rng)
    who, tiers = np.arange(n), people.tiers
    found = [_change(people, who, created, "c", joined('"after":', _row(people, who, tiers), "}"), delay)]
    at = np.maximum(created, first)
    rest = np.maximum(0, plan.end_ms - at)
    # One in four changes tier during the period, and some of these again.
    for _ in range(4):
        who = who[rng.chance(0.25, len(who))]
        at[who] += 1 + rng.below(rest[who], len(who))
        before = tiers[who]
        up = (before == 0) | (rng.chance(0.7, len(who)) & (before < 3))
        tiers = tiers.copy()
        tiers[who] += np.where(up, 1, -1)
        rows = joined('"before":', _row(people, who, before), ',"after":', _row(people, who, tiers[who]), "}")
        found.append(_change(people, who, at[who], "u", rows))
    who = np.flatnonzero(rng.chance(0.004, n))
    gone = at[who] + 1 + rng.below(rest[who], len(who))
    found.append(_change(people, who, gone, "d", joined('"before":', _row(people, who, tiers[who]), "}")))
    return found


def _creation(first: Ints, plan: Plan, rng: StableRandom) -> tuple[Ints, Ints]:
    """Draw when users were created, and the delay of that event (-1: as for any other record)."""
    n = len(first)
    case, begin = rng.floats(n), plan.start_ms
    found = np.select(
        [
            case < 0.01,  # bought as guests, and signed up afterwards
            case < 0.30,  # signed up just before the first click
        ],
        [
            first + 1 + rng.below(HOUR, n),
            np.maximum(begin, first - 1_000 - rng.below(10 * MINUTE, n)),
        ],
        # Existing users: their rows come first, like the initial snapshot of change data capture.
        np.minimum(begin + rng.below(5 * MINUTE, n), np.maximum(begin, first - 1_000)),
    )
    slow = (case >= 0.30) & (case < 0.32)
    return found, np.where(slow, 30 * MINUTE + rng.below(6 * HOUR, n), -1)


def _row(people: People, who: Ints, tiers: Ints) -> Text:
    country, email = taken(people.countries, who), taken(people.emails, who)
    return joined('{"tier":"', taken(_TIERS, tiers), '","country":"', country, '","email":"', email, '"}')


def _change(people: People, who: Ints, at: Ints, op: str, rows: Text, delay: Ints | None = None) -> Events:
    keys = people.keys.take(who)
    payload = joined('"user_id":"', keys.text, f'","op":"{op}",', rows)
    return Events("users", "user_changed", at, who, keys, payload, delay)
