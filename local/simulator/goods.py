"""The shop's products, prices and merchants: the same in every run."""

import numpy as np

from local.simulator.columns import words
from local.simulator.rng import Ints, StableRandom

PRODUCTS = 400
MERCHANTS = 32
HOT = 0
"""The product that gets the hot share of page views and impressions. Of the others, lower numbers are likelier."""

_rng = StableRandom("goods")
MERCHANT_OF = _rng.below(MERCHANTS, PRODUCTS)
CENTS = 299 + _rng.small(20_000, PRODUCTS) // 100 * 100

PRODUCT_IDS = words(*(f"p{i:04d}" for i in range(PRODUCTS)))
MERCHANT_IDS = words(*(f"m{i:03d}" for i in range(MERCHANTS)))


def pick(rng: StableRandom, hot_share: float, n: int) -> Ints:
    """Draw products: the hot one at its share, otherwise the popular ones more often."""
    return np.where(rng.chance(hot_share, n), HOT, 1 + rng.small(PRODUCTS - 1, n))
