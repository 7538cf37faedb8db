"""StableRandom columns, the same on every machine and with every version of numpy."""

import hashlib

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


class StableRandom:
    """Draws from the raw bits of PCG64, which numpy guarantees to be stable, with exact arithmetic only."""

    def __init__(self, *names: object) -> None:
        text = "/".join(str(name) for name in names)
        self._bits = np.random.PCG64(int.from_bytes(hashlib.sha256(text.encode()).digest()))

    def raw(self, n: int) -> NDArray[np.uint64]:
        """Draw 64-bit integers."""
        return np.asarray(self._bits.random_raw(n), dtype=np.uint64)

    def octets(self, n: int, width: int) -> NDArray[np.uint8]:
        """Draw `n` rows of `width` bytes."""
        words = self.raw(-(-n * width // 8)).astype("<u8")
        return words.view(np.uint8)[: n * width].reshape(n, width)

    def floats(self, n: int) -> Floats:
        """Draw numbers in [0, 1)."""
        return (self.raw(n) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def below(self, most: float | Ints, n: int) -> Ints:
        """Draw integers in [0, `most`); `most` is one number, or one per row."""
        return (self.floats(n) * most).astype(np.int64)

    def small(self, most: float, n: int, times: int = 2) -> Ints:
        """Draw integers below `most`; smaller ones are likelier, the more so the larger `times` is."""
        found = self.floats(n)
        for _ in range(times - 1):
            found *= self.floats(n)
        return (found * most).astype(np.int64)

    def chance(self, share: float, n: int) -> Mask:
        """Draw booleans that are true with probability `share`."""
        return self.floats(n) < share

    def pick(self, table: tuple[int, ...] | Ints, n: int) -> Ints:
        """Draw from a table with equal probabilities."""
        return np.asarray(table, dtype=np.int64)[self.below(len(table), n)]

    def sample(self, n: int, share: float) -> Ints:
        """Draw a share of the first `n` numbers without repetition; a fraction is rounded at random."""
        wanted = min(n, self.rounded(n * share))
        return np.sort(np.argsort(self.raw(n), kind="stable")[:wanted])

    def rounded(self, number: float) -> int:
        """Round up or down at random, so that small shares of small shards add up correctly."""
        return int(number + float(self.floats(1)[0]))
