"""The reactor's parts: reading records, the circuit breaker, retrying one payment at a real API."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
from payments import QUICK, payment, until, written

from config.declarations import topic_named
from config.errors import LakehouseError
from config.settings import ReactorSettings
from local.payment_api.behaviour import Behaviour, Mode
from local.payment_api.server import PaymentApi
from streaming.roles.reactor.api import Api
from streaming.roles.reactor.breaker import Breaker, Turn
from streaming.roles.reactor.outcomes import outcome
from streaming.roles.reactor.payments import FailedPayment, UnreadableError, failed_payment
from streaming.roles.reactor.retries import Retrier, Settled, StoppedError
from streaming.roles.reactor.settled_payments import SettledPayments


def read(**fields: Any) -> FailedPayment:
    found = failed_payment(written(payment(**fields)))
    assert found
    return found


# Reading records


def test_only_failed_payments_are_retried() -> None:
    assert failed_payment(written(payment(type="payment_received"))) is None
    assert failed_payment(b'{"type": "teleported"}') is None
    assert read(event_id="e1").event_id == "e1"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "no value"),
        (b"", "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b'{"type": "payment_failed"', "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"type": ' + b"9" * 5_000 + b"}", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b'{"type": ["payment_failed"]}', "no type"),
        (written(payment(order_id=...)), "order_id"),
        (written(payment(amount_cents="much")), "amount_cents"),
        (written(payment(schema_version=99)), "schema_version"),
        (written(payment(event_id="a\r\nHost: b")), "event_id cannot be a key"),
        (written(payment(event_id="\ud800")), "event_id cannot be a key"),
        (written(payment(event_id="")), "event_id cannot be a key"),
        (written(payment(order_id="x" * 10_000)), "order_id cannot be a key"),
    ],
)
def test_what_cannot_be_read_has_its_reason(value: bytes | None, reason: str) -> None:
    with pytest.raises(UnreadableError, match=reason):
        failed_payment(value)


def test_the_outcome_is_an_event_as_declared_with_an_id_that_follows_from_the_payment() -> None:
    settled = Settled(read(event_id="e1"), "accepted", 3)
    first, again = (json.loads(outcome(settled, datetime(2026, 1, n, tzinfo=UTC)).value) for n in (5, 6))
    jsonschema.validate(first, topic_named("payment_retries").events)
    assert first["event_id"] == again["event_id"] != settled.payment.event_id
    assert (first["retry_of"], first["outcome"], first["attempts"]) == ("e1", "accepted", 3)
    assert first["event_time"] == "2026-01-05T00:00:00.000Z"


def test_the_oldest_settled_payments_are_evicted_first() -> None:
    settled = SettledPayments(max_size=2)
    settled.add(read(event_id=name) for name in ("a", "b", "c"))
    assert [settled.digest_of(name) is not None for name in ("a", "b", "c")] == [False, True, True]


# The circuit breaker


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    return Breaker(failures_to_open=3, open_seconds=5, clock=clock)


def fail(breaker: Breaker, times: int) -> None:
    for _ in range(times):
        breaker.failed()


def test_the_circuit_opens_after_failures_in_a_row_only(breaker: Breaker) -> None:
    fail(breaker, 2)
    breaker.succeeded()
    fail(breaker, 2)
    assert breaker.turn() is Turn.CALL
    fail(breaker, 1)
    assert breaker.turn() is Turn.WAIT


def test_after_a_pause_one_asks_and_the_others_wait(breaker: Breaker, clock: Clock) -> None:
    fail(breaker, 3)
    clock.now = 5
    assert [breaker.turn() for _ in range(3)] == [Turn.PROBE, Turn.WAIT, Turn.WAIT]
    breaker.probed(healthy=True)
    assert breaker.turn() is Turn.CALL
    assert breaker.open_for == 0


def test_an_api_that_stays_unwell_is_asked_after_each_pause_and_is_one_outage(breaker: Breaker, clock: Clock) -> None:
    fail(breaker, 3)
    for now in (5, 10, 15):
        clock.now = now
        assert breaker.turn() is Turn.PROBE
        breaker.probed(healthy=False)
        assert breaker.turn() is Turn.WAIT
    assert breaker.outages == 1
    assert breaker.open_for == 15


# Retrying one payment


@dataclass
class Trial:
    """A retrier with its stop and its breaker."""

    api: PaymentApi
    settings: ReactorSettings = QUICK

    def __post_init__(self) -> None:
        self.stop = Event()
        self.breaker = Breaker(self.settings.failures_to_open, self.settings.open_seconds)
        calling = Api(self.api.address, self.settings.call_seconds)
        self.retrier = Retrier(self.settings, calling, self.breaker, self.stop)

    def settle(self, **fields: Any) -> Settled:
        return self.retrier.settle(read(**fields))

    def behave(self, **behaviour: Any) -> None:
        self.api.behaviours.change(Behaviour(**behaviour))


@pytest.fixture
def trial(api: PaymentApi) -> Trial:
    return Trial(api)


def test_waits_grow_double_each_time_up_to_the_cap_and_are_anywhere_below(api: PaymentApi) -> None:
    own = ReactorSettings(first_wait_seconds=0.2, longest_wait_seconds=2)
    wait = Trial(api, own).retrier._retrying.wait
    for attempt, most in enumerate([0.2, 0.4, 0.8, 1.6, 2, 2, 2], start=1):
        drawn = [wait(SimpleNamespace(attempt_number=attempt)) for _ in range(300)]  # type: ignore[arg-type]
        assert 0 <= min(drawn) < most / 2 < max(drawn) <= most


def test_failures_are_tried_again_and_the_payment_takes_effect_once(trial: Trial) -> None:
    trial.behave(mode="fail", calls=2)
    assert trial.settle(event_id="e1").attempts == 3
    assert trial.api.store.totals() == (3, 1)


@pytest.mark.parametrize("behaviour", [{"mode": "lose"}, {"mode": "slow", "seconds": 2}])
def test_an_answer_that_does_not_come_back_is_asked_for_again_with_the_same_key(
    api: PaymentApi, behaviour: Any
) -> None:
    trial = Trial(api, QUICK.model_copy(update={"call_seconds": 0.5}))
    trial.behave(calls=1, **behaviour)
    settled = trial.settle(event_id="e1")
    assert (settled.attempts, settled.outcome) == (2, trial.api.outcome("e1"))
    assert trial.api.store.totals() == (2, 1)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502])
def test_an_answer_that_says_nothing_of_the_payment_is_tried_again(trial: Trial, status: int) -> None:
    trial.behave(mode="fail", status=status, calls=1)
    assert trial.settle().attempts == 2


def test_a_request_that_the_api_refuses_is_declined_with_the_reason_after_one_call(trial: Trial) -> None:
    settled = trial.settle(amount_cents=-5)
    assert (settled.outcome, settled.attempts) == ("declined", 1)
    assert "400" in str(settled.reason)


@pytest.mark.parametrize("status", [401, 403, 404, 405, 407, 415, 421])
def test_an_answer_of_a_wrong_address_or_wrong_credentials_declines_no_payment(trial: Trial, status: int) -> None:
    trial.behave(mode="fail", status=status)
    with pytest.raises(LakehouseError, match=rf"{trial.api.address}/retry-payment was answered with {status}") as error:
        trial.settle()
    assert "LAKEHOUSE_REACTOR__API" in error.value.hint


class Elsewhere(BaseHTTPRequestHandler):
    """A web server that is no payment API: it redirects every call to another address."""

    def do_POST(self) -> None:
        self.send_response(308)
        self.send_header("Location", "https://127.0.0.1/")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def test_a_redirect_is_an_answer_of_a_wrong_address() -> None:
    with HTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        with pytest.raises(LakehouseError, match="308 Permanent Redirect"):
            Api(f"http://127.0.0.1:{server.server_port}", 5).retry(read())
        thread.join()


def test_a_payment_that_always_fails_is_abandoned_after_its_last_try_and_the_next_goes_on(trial: Trial) -> None:
    trial.behave(mode="fail", payments=frozenset({"p1"}))
    settled = trial.settle(payment_id="p1")
    assert (settled.outcome, settled.attempts) == ("abandoned", QUICK.tries)
    assert "503" in str(settled.reason)
    assert trial.settle(payment_id="p2").reason is None


@pytest.mark.parametrize("mode", [Mode.FAIL, Mode.HANG])
@pytest.mark.parametrize("tries", [2, 20])
def test_while_the_api_is_down_as_a_whole_no_payment_is_abandoned(api: PaymentApi, mode: Mode, tries: int) -> None:
    # Only where it hangs a call has to be given up; on a busy machine an answer may take long.
    patience = {"call_seconds": 0.5} if mode == Mode.HANG else {}
    trial = Trial(api, QUICK.model_copy(update={"tries": tries, **patience}))
    trial.behave(mode=mode)
    found: list[Settled] = []
    thread = Thread(target=lambda: found.append(trial.settle(event_id="e1")))
    thread.start()
    until(lambda: trial.breaker.outages == 1)
    before = api.store.totals()[0]
    until(lambda: trial.breaker.open_for > 5 * QUICK.open_seconds)
    assert api.store.totals()[0] == before, "an open circuit lets no call through"
    trial.behave(mode="normal")
    thread.join(timeout=300)
    assert [each.outcome for each in found] == [api.outcome("e1")]
    assert api.store.totals() == (before + 1, 1)


@pytest.mark.parametrize("waits", [{"first_wait_seconds": 60, "longest_wait_seconds": 60}, {"open_seconds": 60}])
def test_asked_to_stop_no_wait_is_waited_out(api: PaymentApi, waits: dict[str, float]) -> None:
    trial = Trial(api, QUICK.model_copy(update=waits))
    trial.behave(mode="fail")
    ended: list[bool] = []

    def settle() -> None:
        with pytest.raises(StoppedError):
            trial.settle()
        ended.append(True)

    thread = Thread(target=settle)
    thread.start()
    until(lambda: api.store.totals()[0] > 0)
    trial.stop.set()
    thread.join(timeout=300)
    assert ended
