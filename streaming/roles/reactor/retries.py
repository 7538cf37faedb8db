"""Retries: call the API until a payment is settled, with back-off between tries and the circuit breaker before each."""

from dataclasses import dataclass
from threading import Event

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, stop_when_event_set, wait_random_exponential
from tenacity.nap import sleep_using_event

from config.failpoints import failpoint
from config.settings import ReactorSettings
from streaming.roles.reactor.api import Api, ApiFailedError, RefusedError
from streaming.roles.reactor.breaker import Breaker, Turn
from streaming.roles.reactor.payments import FailedPayment

WAIT_SECONDS = 0.05


class StoppedError(Exception):
    """The reactor is stopping: the payment is not settled, and the next reactor retries it."""


class OutageError(Exception):
    """The API was down, for all payments."""


@dataclass(frozen=True)
class Settled:
    """The outcome of a failed payment; `reason` is set if it also becomes a dead letter."""

    payment: FailedPayment
    outcome: str
    attempts: int
    reason: str | None = None


class Retrier:
    """Settles payments in several threads that share one circuit breaker."""

    def __init__(self, settings: ReactorSettings, api: Api, breaker: Breaker, stop: Event) -> None:
        self._api, self._breaker, self._stop = api, breaker, stop
        self._retrying = Retrying(
            retry=retry_if_exception_type(ApiFailedError),
            # Random between zero and the exponential bound: payments that failed together are not retried together.
            wait=wait_random_exponential(multiplier=settings.first_wait_seconds, max=settings.longest_wait_seconds),
            stop=stop_after_attempt(settings.tries) | stop_when_event_set(stop),
            sleep=sleep_using_event(stop),
            reraise=True,
        )

    def settle(self, payment: FailedPayment) -> Settled:
        """Call until the API decides or the last try has failed; failures during an outage do not count as tries."""
        calls, outages = 0, 0

        def call() -> str:
            nonlocal calls
            self._wait_for_api(outages)
            calls += 1
            return self._call(payment)

        while True:
            outages = self._breaker.outages
            try:
                return Settled(payment, self._retrying(call), calls)
            except RefusedError as refused:
                return Settled(payment, "declined", calls, str(refused))
            except OutageError:
                continue  # with all tries again
            except ApiFailedError as failed:
                if self._stop.is_set():
                    raise StoppedError from None
                if self._api.is_healthy():  # if not, the failures were due to an outage
                    return Settled(payment, "abandoned", calls, f"{calls} tries failed, the last one: {failed}")
                self._breaker.probed(healthy=False)

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

    def _wait_for_api(self, outages: int) -> None:
        """Wait until the circuit is closed; raise OutageError if there was an outage since `outages` was read."""
        while (turn := self._breaker.turn()) is not Turn.CALL:
            if turn is Turn.PROBE:
                self._breaker.probed(self._api.is_healthy())
            elif self._stop.wait(WAIT_SECONDS):
                raise StoppedError
        if self._stop.is_set():
            raise StoppedError
        if self._breaker.outages != outages:
            raise OutageError
