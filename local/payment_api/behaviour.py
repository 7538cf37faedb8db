"""The API's current behaviour: normal, or one of the failure modes of real APIs."""

from enum import StrEnum
from threading import Lock

from pydantic import BaseModel, ConfigDict, Field


class Mode(StrEnum):
    """What happens to a call."""

    NORMAL = "normal"
    FAIL = "fail"  # an error response, no effect
    HANG = "hang"  # no response, no effect
    LOSE = "lose"  # the payment takes effect, but the response is lost
    SLOW = "slow"  # the payment takes effect, and the response comes late
    DECLINE = "decline"  # a regular response: the payment is declined


class Behaviour(BaseModel):
    """A mode, for the next `calls` calls only, or for some `payments` only.

    Without either it applies to the whole API: then its health check fails or hangs too.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: Mode = Mode.NORMAL
    calls: int | None = Field(None, ge=1, description="number of calls that it applies to; empty: all")
    payments: frozenset[str] | None = Field(None, description="payment ids that it applies to; empty: all")
    seconds: float = Field(3600, gt=0, description="duration of `hang` and `slow`")
    status: int = Field(503, ge=400, le=599, description="HTTP status of `fail`")

    @property
    def is_whole(self) -> bool:
        """Return whether it applies to the whole API, including the health check."""
        return self.calls is None and self.payments is None


class Behaviours:
    """Holds the current behaviour and counts its calls down."""

    def __init__(self, first: Behaviour | None = None) -> None:
        self._lock = Lock()
        self._now = first or Behaviour()

    @property
    def now(self) -> Behaviour:
        """Return the current behaviour."""
        return self._now

    def change(self, behaviour: Behaviour) -> None:
        """Replace the current behaviour."""
        with self._lock:
            self._now = behaviour

    def next(self, payment_id: str) -> Behaviour:
        """Return the behaviour for one call, and count the call."""
        with self._lock:
            now = self._now
            if now.payments is not None and payment_id not in now.payments:
                return Behaviour()
            if now.calls is not None:
                self._now = now.model_copy(update={"calls": now.calls - 1}) if now.calls > 1 else Behaviour()
            return now
