"""Pace: the pages that each user of a partition was seen on lately -> who turns them faster than people can."""

from bisect import bisect_left, bisect_right, insort
from collections import deque


class Pace:
    """The page views among the last `reach` offsets of one partition, by user and by when they happened.

    Whether a user is too fast follows from these records alone, not from a clock or from when the memory began: a
    process that has just been given the partition decides as its owner before did, once it has read them again.
    A time counts once, however often it comes: to send a page view again is no pace.
    """

    def __init__(self, pages: int, span_ms: int, reach: int) -> None:
        self._pages, self._half, self._reach = pages, span_ms // 2, reach
        self._times: dict[str, list[int]] = {}
        self._last: dict[tuple[str, int], int] = {}
        self._order: deque[tuple[int, str, int]] = deque()

    def see(self, offset: int, user: str, at_ms: int) -> None:
        """Remember a page view, and forget those out of reach."""
        place = user, at_ms
        if place not in self._last:
            insort(self._times.setdefault(user, []), at_ms)
        self._last[place] = offset
        self._order.append((offset, user, at_ms))

    def too_fast(self, offset: int, user: str, at_ms: int) -> bool:
        """Say whether the user has seen too many pages around this time to be a person."""
        self._forget(offset - self._reach)
        times = self._times.get(user, ())
        if len(times) < self._pages:
            return False
        return bisect_right(times, at_ms + self._half) - bisect_left(times, at_ms - self._half) >= self._pages

    def _forget(self, before: int) -> None:
        while self._order and self._order[0][0] < before:
            offset, user, at_ms = self._order.popleft()
            if self._last[user, at_ms] == offset:  # else it was seen again, closer
                del self._last[user, at_ms]
                times = self._times[user]
                del times[bisect_left(times, at_ms)]
                if not times:
                    del self._times[user]
