"""Retrying one payment until it is settled: back-off between tries, the circuit breaker before each."""

from dataclasses import dataclass
from threading import Event

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, stop_when_event_set, wait_random_exponential
from tenacity.nap import sleep_using_event

from config.failpoints import failpoint
from config.settings import ReactorSettings
from streaming.roles.reactor.api import Api, ApiFailedError, RefusedError
from streaming.roles.reactor.breaker import Breaker, Turn
from streaming.roles.reactor.payments import FailedPayment

LOOK_SECONDS = 0.05


class StoppedError(Exception):
    """The reactor is being stopped: the payment is not settled and will be tried again by the next one."""


class OutageError(Exception):
    """The API was down as a whole."""


@dataclass(frozen=True)
class Settled:
    """What became of a failed payment; `reason` says why it is a dead letter, if it is one."""

    payment: FailedPayment
    outcome: str
    attempts: int
    reason: str | None = None


class Retrier:
    """Settles payments, from several threads at once; all of them share one circuit breaker."""

    def __init__(self, settings: ReactorSettings, api: Api, breaker: Breaker, stop: Event) -> None:
        self._api, self._breaker, self._stop = api, breaker, stop
        self._retrying = Retrying(
            retry=retry_if_exception_type(ApiFailedError),
            # Anywhere between none and twice the last wait: many who failed together do not come back together.
            wait=wait_random_exponential(multiplier=settings.first_wait_seconds, max=settings.longest_wait_seconds),
            stop=stop_after_attempt(settings.tries) | stop_when_event_set(stop),
            sleep=sleep_using_event(stop),
            reraise=True,
        )

    def settle(self, payment: FailedPayment) -> Settled:
        """Call until the API decides or the last try failed; failures of an API that is down do not count as tries."""
        calls, outages = 0, 0

        def call() -> str:
            nonlocal calls
            self._wait_for_the_api(outages)
            calls += 1
            return self._call(payment)

        while True:
            outages = self._breaker.outages
            try:
                return Settled(payment, self._retrying(call), calls)
            except RefusedError as refused:
                return Settled(payment, "declined", calls, str(refused))
            except OutageError:
                continue  # with all tries before it
            except ApiFailedError as failed:
                if self._stop.is_set():
                    raise StoppedError from None
                if self._api.is_well():  # if not, the failures were the API's and not the payment's
                    return Settled(payment, "abandoned", calls, f"{calls} tries failed, the last one: {failed}")
                self._breaker.probed(well=False)

    def _call(self, payment: FailedPayment) -> str:
        try:
            failpoint("reactor: before the call")
            outcome = self._api.retry(payment)
            failpoint("reactor: called")
        except ApiFailedError:
            self._breaker.failed()
            raise
        except RefusedError:
            self._breaker.succeeded()
            raise
        self._breaker.succeeded()
        return outcome

    def _wait_for_the_api(self, outages: int) -> None:
        """Let a call through if the circuit is closed, else wait; say so if the API was down since `outages`."""
        while (turn := self._breaker.turn()) is not Turn.CALL:
            if turn is Turn.PROBE:
                self._breaker.probed(self._api.is_well())
            elif self._stop.wait(LOOK_SECONDS):
                raise StoppedError
        if self._stop.is_set():
            raise StoppedError
        if self._breaker.outages != outages:
            raise OutageError
