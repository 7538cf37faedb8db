"""Circuit breaker: after several failures in a row, no thread calls the API until it is healthy again."""

import time
from collections.abc import Callable
from enum import Enum, auto
from threading import Lock


class Turn(Enum):
    """What a thread that wants to call the API may do now."""

    CALL = auto()
    WAIT = auto()
    PROBE = auto()


class Breaker:
    """Closed: calls go through. Open: calls wait. Half-open, after a pause: one thread probes the API's health.

    The probe is the health endpoint, not a payment. Otherwise a payment that always fails would look like an outage,
    and an outage would use up the payment's tries.
    """

    def __init__(self, failures_to_open: int, open_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._failures_to_open, self._open_seconds, self._clock = failures_to_open, open_seconds, clock
        self._lock = Lock()
        self._failures = 0
        self._pause_began = 0.0
        self._probing = False
        self._open_since: float | None = None
        self._unhealthy = False
        self.outages = 0
        """How often the API changed from healthy to unhealthy."""

    @property
    def open_for(self) -> float:
        """Return for how many seconds the circuit has been open; 0 if it is closed."""
        since = self._open_since
        return 0.0 if since is None else self._clock() - since

    def turn(self) -> Turn:
        """Return what the caller may do now; after PROBE the caller must call `probed`."""
        with self._lock:
            if self._open_since is None:
                return Turn.CALL
            if self._probing or self._clock() - self._pause_began < self._open_seconds:
                return Turn.WAIT
            self._probing = True
            return Turn.PROBE

    def succeeded(self) -> None:
        """Record that the API answered a call, whatever the answer was."""
        with self._lock:
            self._close()

    def failed(self) -> None:
        """Record that the API did not answer a call."""
        with self._lock:
            self._failures += 1
            if self._failures >= self._failures_to_open:
                self._open()

    def probed(self, healthy: bool) -> None:
        """Record the result of a probe."""
        with self._lock:
            self._probing = False
            if healthy:
                self._close()
                return
            self._open()
            self._pause_began = self._clock()
            self.outages += not self._unhealthy
            self._unhealthy = True

    def _open(self) -> None:
        if self._open_since is None:
            self._open_since = self._pause_began = self._clock()

    def _close(self) -> None:
        self._failures, self._open_since, self._unhealthy = 0, None, False
