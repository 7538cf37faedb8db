"""Time in the shop: the daily curve of visits, the text of timestamps, the delay until records arrive."""

from datetime import UTC, datetime
from functools import cache

import numpy as np

from config.declarations import Topic
from local.simulator.columns import Text, taken, words
from local.simulator.rng import Ints, StableRandom

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR

# Visits in each hour of the day, in parts per 400: a quiet night, a lunch break, a long evening.
_VISITS_BY_HOUR = (6, 4, 3, 2, 2, 3, 6, 10, 14, 17, 19, 21, 24, 22, 19, 18, 19, 22, 26, 31, 35, 34, 27, 16)
HOURS = np.repeat(np.arange(24) * HOUR, _VISITS_BY_HOUR)

# The allowance that delays are drawn for where a topic has none.
_USUAL_ALLOWANCE = 10 * MINUTE


def written(time_ms: int) -> str:
    """Format a time as ISO-8601 in UTC with milliseconds."""
    seconds, rest = divmod(time_ms, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:03d}Z"


def time_texts(times: Ints, start_ms: int, end_ms: int) -> tuple[Text, Text]:
    """Format times of a period in two parts, minute and rest, from lookup tables: formatting each is slow."""
    first = start_ms // DAY
    minutes, rest = np.divmod(times - first * DAY, MINUTE)
    return taken(_minutes(first, -(-end_ms // DAY)), minutes), taken(_tails(), rest)


@cache
def _minutes(first_day: int, end_day: int) -> Text:
    minutes = [f"T{minute // 60:02d}:{minute % 60:02d}:" for minute in range(DAY // MINUTE)]
    return words(*(written(day * DAY)[:10] + minute for day in range(first_day, end_day) for minute in minutes))


@cache
def _tails() -> Text:
    return words(*(f"{ms // 1000:02d}.{ms % 1000:03d}Z" for ms in range(MINUTE)))


def since_first(steps: Ints, counts: Ints) -> Ints:
    """Return the sum of the earlier steps in each row's group; `counts` are the group sizes."""
    passed = np.cumsum(steps) - steps
    firsts = (np.cumsum(counts) - counts)[counts > 0]
    since: Ints = passed - np.repeat(passed[firsts], counts[counts > 0])
    return since


def allowance_ms(topic: Topic) -> int | None:
    """Return the topic's lateness allowance; None if its records are never late."""
    allowance = topic.lateness.allowance
    return None if allowance is None else int(allowance.total_seconds() * 1000)


def delays(topic: Topic, rng: StableRandom, n: int) -> Ints:
    """Draw the delays of a topic's records: mostly seconds, some minutes, none of them late."""
    longest = int(0.8 * (allowance_ms(topic) or _USUAL_ALLOWANCE))
    ahead = int(topic.lateness.max_clock_ahead.total_seconds() * 1000)
    case, part = rng.floats(n), rng.floats(n)
    found = np.select(
        # One clock in 250 is ahead, within the bound; the default case is a delay of minutes.
        [case < 0.004, case < 0.86, case < 0.985],
        [-part * ahead / 2, np.minimum(longest, 50 + part * 5_000), np.minimum(longest, 5_000 + part * 55_000)],
        min(longest, MINUTE) + part * max(0, longest - MINUTE),
    )
    return found.astype(np.int64)


def late_delays(topic: Topic, rng: StableRandom, n: int) -> Ints:
    """Draw the delays of late records: from 1.2 to 12 times the allowance."""
    allowance = allowance_ms(topic) or _USUAL_ALLOWANCE
    return int(1.2 * allowance) + rng.small(10.8 * allowance, n)
