"""Page rate: the recent page views of a partition -> whether a user views pages faster than a person can."""

from bisect import bisect_left, bisect_right, insort
from collections import deque


class PageRate:
    """The page views among the last `reach` offsets of one partition, by user and event time.

    The decision depends on these records only, not on a clock or on when the process started. A new owner of the
    partition therefore decides as the previous owner did, once it has reread them.
    Each event time of a user counts once: a page view that is sent twice does not raise the rate.
    """

    def __init__(self, pages: int, span_ms: int, reach: int) -> None:
        self._pages, self._half, self._reach = pages, span_ms // 2, reach
        self._times: dict[str, list[int]] = {}
        self._last: dict[tuple[str, int], int] = {}
        self._order: deque[tuple[int, str, int]] = deque()

    def add(self, offset: int, user: str, at_ms: int) -> None:
        """Add a page view."""
        view = user, at_ms
        if view not in self._last:
            insort(self._times.setdefault(user, []), at_ms)
        self._last[view] = offset
        self._order.append((offset, user, at_ms))

    def too_fast(self, offset: int, user: str, at_ms: int) -> bool:
        """Return whether the user viewed more pages around this time than a person can."""
        self._forget(offset - self._reach)
        times = self._times.get(user, ())
        if len(times) < self._pages:
            return False
        return bisect_right(times, at_ms + self._half) - bisect_left(times, at_ms - self._half) >= self._pages

    def _forget(self, before: int) -> None:
        while self._order and self._order[0][0] < before:
            offset, user, at_ms = self._order.popleft()
            if self._last[user, at_ms] == offset:  # else a later record repeated it
                del self._last[user, at_ms]
                times = self._times[user]
                del times[bisect_left(times, at_ms)]
                if not times:
                    del self._times[user]
