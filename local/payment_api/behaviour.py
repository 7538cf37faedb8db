"""How the API behaves until it is told otherwise: well, or in one of the ways in which real ones fail."""

from enum import StrEnum
from threading import Lock

from pydantic import BaseModel, ConfigDict, Field


class Mode(StrEnum):
    """What a call meets."""

    NORMAL = "normal"
    FAIL = "fail"  # an error answer, and no effect
    HANG = "hang"  # no answer, and no effect
    LOSE = "lose"  # the effect, but the answer is lost on its way
    SLOW = "slow"  # the effect, and an answer after a while
    DECLINE = "decline"  # an answer as good as any other: no


class Behaviour(BaseModel):
    """A way to behave; with `calls` for so many calls, with `payments` for these payments only.

    With neither it concerns the API as a whole, so that its health follows: it fails or hangs too.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: Mode = Mode.NORMAL
    calls: int | None = Field(None, ge=1, description="for the next calls; empty: until told otherwise")
    payments: frozenset[str] | None = Field(None, description="for these payment ids; empty: for all")
    seconds: float = Field(3600, gt=0, description="how long `hang` and `slow` take")
    status: int = Field(503, ge=400, le=599, description="what `fail` answers")

    @property
    def is_whole(self) -> bool:
        """Say whether the API as a whole behaves so, its health with it."""
        return self.calls is None and self.payments is None


class Behaviours:
    """The behaviour of now, counted down call by call."""

    def __init__(self, first: Behaviour | None = None) -> None:
        self._lock = Lock()
        self._now = first or Behaviour()

    @property
    def now(self) -> Behaviour:
        """Give what was told last, and is not used up."""
        return self._now

    def tell(self, behaviour: Behaviour) -> None:
        """Behave so from now on."""
        with self._lock:
            self._now = behaviour

    def next(self, payment_id: str) -> Behaviour:
        """Give the behaviour that a call meets."""
        with self._lock:
            now = self._now
            if now.payments is not None and payment_id not in now.payments:
                return Behaviour()
            if now.calls is not None:
                self._now = now.model_copy(update={"calls": now.calls - 1}) if now.calls > 1 else Behaviour()
            return now
