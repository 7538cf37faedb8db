"""The circuit breaker: after failures in a row nobody calls the API until it says that it is well again."""

import time
from collections.abc import Callable
from enum import Enum, auto
from threading import Lock


class Turn(Enum):
    """What whoever wants to call may do now."""

    CALL = auto()
    WAIT = auto()
    PROBE = auto()


class Breaker:
    """Closed: calls go through. Open: they wait. Half-open, after a pause: one asks for the API's health, and tells.

    The probe is the API's health and not a payment: a payment that always fails would otherwise look like an API that
    is down, and an API that is down would use up the payment's tries.
    """

    def __init__(self, failures_to_open: int, open_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._failures_to_open, self._open_seconds, self._clock = failures_to_open, open_seconds, clock
        self._lock = Lock()
        self._failures = 0
        self._pause_began = 0.0
        self._probing = False
        self._open_since: float | None = None
        self._unwell = False
        self.outages = 0
        """How often the API was found unwell after having been well."""

    @property
    def open_for(self) -> float:
        """Say for how many seconds it has been open; 0: it is closed."""
        since = self._open_since
        return 0.0 if since is None else self._clock() - since

    def turn(self) -> Turn:
        """Say what to do now; the one who is told to probe owes an answer by `probed`."""
        with self._lock:
            if self._open_since is None:
                return Turn.CALL
            if self._probing or self._clock() - self._pause_began < self._open_seconds:
                return Turn.WAIT
            self._probing = True
            return Turn.PROBE

    def succeeded(self) -> None:
        """Take in that a call was answered, whatever the answer was."""
        with self._lock:
            self._close()

    def failed(self) -> None:
        """Take in that a call was not answered."""
        with self._lock:
            self._failures += 1
            if self._failures >= self._failures_to_open:
                self._open()

    def probed(self, well: bool) -> None:
        """Take in what the API says of its health."""
        with self._lock:
            self._probing = False
            if well:
                self._close()
                return
            self._open()
            self._pause_began = self._clock()
            self.outages += not self._unwell
            self._unwell = True

    def _open(self) -> None:
        if self._open_since is None:
            self._open_since = self._pause_began = self._clock()

    def _close(self) -> None:
        self._failures, self._open_since, self._unwell = 0, None, False
