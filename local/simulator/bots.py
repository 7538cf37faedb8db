"""Bots at the web edge: some name themselves in the user agent, the others are recognized by their page rate."""

import numpy as np

from local.simulator.clock import DAY, HOUR, since_first
from local.simulator.columns import joined, numbers, taken, words
from local.simulator.events import Events, new_keys
from local.simulator.goods import PRODUCT_IDS, PRODUCTS
from local.simulator.people import AGENTS
from local.simulator.plan import Plan
from local.simulator.records import KINDS
from local.simulator.rng import Ints, StableRandom

_BOT_AGENTS = (
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    "Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)",
    "Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)",
    "python-requests/2.32.3",
    "curl/8.11.0",
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 HeadlessChrome/131.0.0.0 Safari/537.36",
)
_ALL_AGENTS = words(*AGENTS, *_BOT_AGENTS)
_FEWEST = 5
# At five to ten pages per second a bot needs this many to be recognizable.
_FEWEST_AT_PACE = 40


def bot_events(plan: Plan, wanted: int, rng: StableRandom) -> tuple[Events, Ints]:
    """Return the events of bots, and for each event how the bot is recognized: by agent or by rate."""
    n = wanted // _FEWEST + 1
    fast = rng.chance(0.5, n)
    pages = np.where(fast, _FEWEST_AT_PACE + rng.below(260, n), _FEWEST + rng.below(60, n))
    pages = np.diff(np.minimum(np.cumsum(pages), wanted), prepend=0)  # cut the last bot short
    fast &= pages >= _FEWEST_AT_PACE
    pace = np.where(fast, 100, 2_000)
    agents = np.where(fast, rng.below(len(AGENTS), n), len(AGENTS) + rng.below(len(_BOT_AGENTS), n))
    begin = plan.start_ms + rng.below(plan.days * DAY - HOUR, n)
    ips = joined("203.0.113.", numbers(1 + rng.below(254, n)))
    kinds = np.where(fast, KINDS.index("rate"), KINDS.index("agent"))
    users = new_keys("u", rng, n)

    bot = np.repeat(np.arange(n), pages)
    steps = pace[bot] + rng.below(pace[bot], wanted)
    keys, products = users.take(bot), taken(PRODUCT_IDS, rng.below(PRODUCTS, wanted))
    payload = joined(
        *('"user_id":"', keys.text, '","product_id":"', products, '","dwell_ms":', numbers(steps)),
        *(',"ip":"', taken(ips, bot), '","user_agent":"', taken(_ALL_AGENTS, agents[bot]), '"}'),
    )
    return Events("clicks_raw", "page_view", begin[bot] + since_first(steps, pages), bot, keys, payload), kinds[bot]
