"""The payment API's stand-in: an effect for each key, once, whatever happens on the way."""

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from typing import Any

import pytest
from payments import ask, serving, start, until

from config.errors import LakehouseError
from config.settings import PaymentApiSettings, Settings
from local.payment_api.behaviour import Mode
from local.payment_api.server import PaymentApi

PAYMENT = {"payment_id": "p1", "amount_cents": 1999}
BROKEN = (OSError, HTTPException)


@pytest.fixture
def api(fresh_home: Settings) -> Iterator[PaymentApi]:
    with serving(fresh_home) as api:
        yield api


def retry(api: PaymentApi, key: str | None = "k1", payment: Any = PAYMENT, seconds: float = 10) -> tuple[int, Any]:
    return ask(api.address, "POST", "/retry-payment", payment, key, seconds)


def behave(api: PaymentApi, **behaviour: Any) -> int:
    return ask(api.address, "POST", "/behaviour", behaviour)[0]


def health(api: PaymentApi) -> int:
    return ask(api.address, "GET", "/health")[0]


def test_a_key_takes_effect_once_and_has_the_same_answer_every_time(api: PaymentApi) -> None:
    answers = [retry(api) for _ in range(3)]
    assert answers[0][0] == 200
    assert answers[1:] == [answers[0]] * 2
    assert api.store.totals() == (3, 1)


def test_many_callers_with_one_key_at_the_same_time_have_one_effect(api: PaymentApi) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: retry(api), range(40)))
    assert all(answer == answers[0] for answer in answers)
    assert api.store.totals() == (40, 1)


def test_a_key_is_not_taken_for_another_payment(api: PaymentApi) -> None:
    first = retry(api)
    assert retry(api, payment=PAYMENT | {"amount_cents": 1})[0] == 422
    assert retry(api) == first
    assert api.store.totals() == (3, 1)


@pytest.mark.parametrize(
    "payment",
    [b"", b"{", b"[1]", b"[" * 100_000, {"payment_id": "p1"}, PAYMENT | {"amount_cents": -1}, {"amount_cents": 1}],
)
def test_what_is_no_payment_is_refused(api: PaymentApi, payment: Any) -> None:
    assert retry(api, payment=payment)[0] == 400
    assert api.store.totals()[1] == 0


def test_a_call_without_a_key_is_refused(api: PaymentApi) -> None:
    assert retry(api, key=None)[0] == 400
    assert api.store.totals() == (0, 0)


def test_it_fails_for_as_many_calls_as_set(api: PaymentApi) -> None:
    assert behave(api, mode="fail", calls=2) == 200
    assert [retry(api)[0] for _ in range(3)] == [503, 503, 200]
    assert api.store.totals() == (3, 1)


def test_it_fails_with_the_status_that_is_set(api: PaymentApi) -> None:
    behave(api, mode="fail", status=429)
    assert retry(api)[0] == 429


def test_told_without_a_limit_it_is_unwell_as_a_whole(api: PaymentApi) -> None:
    behave(api, mode="fail")
    assert (retry(api)[0], retry(api)[0], health(api)) == (503, 503, 503)
    behave(api, mode="normal")
    assert (retry(api)[0], health(api)) == (200, 200)


def test_told_for_some_payments_the_others_and_its_health_are_well(api: PaymentApi) -> None:
    behave(api, mode="fail", payments=["p1"])
    assert (retry(api)[0], health(api)) == (503, 200)
    assert retry(api, "k2", PAYMENT | {"payment_id": "p2"})[0] == 200


def test_an_answer_can_be_lost_after_the_effect(api: PaymentApi) -> None:
    behave(api, mode="lose", calls=1)
    with pytest.raises(BROKEN):
        retry(api)
    assert api.store.totals() == (1, 1)
    assert retry(api)[0] == 200
    assert api.store.totals() == (2, 1)


def test_a_call_that_hangs_has_no_effect(api: PaymentApi) -> None:
    behave(api, mode="hang")
    with pytest.raises(TimeoutError):
        retry(api, seconds=0.2)
    until(lambda: api.store.totals() == (1, 0))


def test_a_slow_answer_comes_after_the_effect(api: PaymentApi) -> None:
    behave(api, mode="slow", seconds=2)
    with pytest.raises(TimeoutError):
        retry(api, seconds=0.1)
    until(lambda: api.store.totals() == (1, 1))
    assert retry(api)[0] == 200


def test_told_to_decline_it_declines_and_stays_with_it(api: PaymentApi) -> None:
    behave(api, mode="decline", calls=1)
    assert [retry(api)[1]["outcome"] for _ in range(2)] == ["declined", "declined"]


def test_a_behaviour_that_does_not_exist_is_refused_and_changes_nothing(api: PaymentApi) -> None:
    assert [behave(api, mode="sulk"), behave(api, mode="fail", cals=1), behave(api, mode="fail", calls=0)] == [400] * 3
    assert api.behaviours.now.mode is Mode.NORMAL


def test_what_is_not_there_is_not_found(api: PaymentApi) -> None:
    assert ask(api.address, "GET", "/")[0] == 404
    assert ask(api.address, "POST", "/refund", {})[0] == 404


def test_the_outcome_follows_from_the_key_at_the_configured_share(api: PaymentApi) -> None:
    found = [api.outcome(f"key {n}") for n in range(2_000)]
    assert found == [api.outcome(f"key {n}") for n in range(2_000)]
    assert 0.65 < found.count("accepted") / len(found) < 0.75


def test_killed_and_started_again_it_knows_its_keys_at_the_same_address(fresh_home: Settings) -> None:
    answers, addresses = [], []
    for _ in range(2):
        with start("local.payment_api", home=fresh_home.home) as process:
            assert process.stdout
            addresses.append(process.stdout.readline().split()[5].rstrip("."))
            answers.append(ask(addresses[-1], "POST", "/retry-payment", PAYMENT, "k1"))
            process.send_signal(signal.SIGKILL)
    assert answers[0][0] == 200
    assert (answers[1], addresses[1]) == (answers[0], addresses[0])
    with serving(fresh_home) as api:
        assert api.store.totals() == (2, 1)


def test_asked_to_end_it_ends_also_while_a_call_hangs(fresh_home: Settings) -> None:
    with start("local.payment_api", "--behave", "hang", home=fresh_home.home) as process, ThreadPoolExecutor() as pool:
        assert process.stdout
        address = process.stdout.readline().split()[5].rstrip(".")
        hanging = pool.submit(ask, address, "POST", "/retry-payment", PAYMENT, "k1", 60)
        until(lambda: ask(address, "GET", "/effects")[1]["keys"] != {})
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=300) == 0
        assert "1 calls, 0 payments" in process.stdout.read()
        assert isinstance(hanging.exception(timeout=300), BROKEN)


def test_a_configured_port_that_is_taken_is_named(fresh_home: Settings, api: PaymentApi) -> None:
    taken = fresh_home.model_copy(update={"payment_api": PaymentApiSettings(port=api.server_port)})
    with pytest.raises(LakehouseError, match=str(api.server_port)):
        PaymentApi(taken)


def test_a_remembered_port_that_is_taken_gives_way_to_a_free_one(fresh_home: Settings, api: PaymentApi) -> None:
    with serving(fresh_home) as other:
        assert other.server_port != api.server_port
        assert ask(other.address, "GET", "/health")[0] == 200
