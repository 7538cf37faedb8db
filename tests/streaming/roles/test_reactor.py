"""The reactor from the log to the log: each failed payment takes effect once and has one outcome."""

import signal
from threading import Thread

import jsonschema
import pytest
from payments import QUICK, ask, calls, committed, effects, outcomes, payment, send, start, until, written

from config.declarations import topic_named
from config.errors import LakehouseError
from config.settings import Settings
from local.payment_api.behaviour import Behaviour, Mode
from local.payment_api.server import PaymentApi
from streaming.roles.reactor.reactor import react


@pytest.fixture
def shop(settings: Settings, broker: object, api: PaymentApi) -> Settings:
    """Settings of a reactor with an API of its own, and a log in which everything so far is settled."""
    own = QUICK.model_copy(update={"api": api.address, "outage_seconds": 0.2})
    shop = settings.model_copy(update={"reactor": own})
    react(shop, until_caught_up=True)
    return shop


def test_each_failed_payment_takes_effect_once_and_has_one_outcome(shop: Settings, api: PaymentApi) -> None:
    events = [payment() for _ in range(20)]
    send(shop, *events, payment(type="payment_received"))
    seen = react(shop, until_caught_up=True)
    assert effects(api.address, *events) == [1] * 20
    assert outcomes(shop, *events) == [[api.outcome(event["event_id"])] for event in events]
    assert (seen.progress.records, seen.counts["other events"], seen.counts["calls"]) == (21, 1, 20)
    assert react(shop, until_caught_up=True).progress.records == 0


def test_a_copy_of_an_event_has_no_second_outcome_in_the_same_batch_or_in_another_process(
    shop: Settings, api: PaymentApi
) -> None:
    event = payment()
    send(shop, event, event)
    assert react(shop, until_caught_up=True).counts["copies"] == 1
    send(shop, event)
    assert react(shop, until_caught_up=True).counts["copies"] == 1
    assert (effects(api.address, event), calls(api.address, event)) == ([1], [1])
    assert outcomes(shop, event) == [[api.outcome(event["event_id"])]]


def test_another_payment_under_a_used_id_is_a_dead_letter_and_not_charged(shop: Settings, api: PaymentApi) -> None:
    event = payment()
    send(shop, event)
    react(shop, until_caught_up=True)
    send(shop, event | {"amount_cents": 1})
    assert react(shop, until_caught_up=True).counts["dead letters"] == 1
    assert "event_id_reused" in committed(shop, "dead_letter")[-1]["reason"]
    assert (effects(api.address, event), len(outcomes(shop, event)[0])) == ([1], 1)


def test_hostile_records_become_dead_letters_and_stop_nothing(shop: Settings, api: PaymentApi) -> None:
    before, event = len(committed(shop, "dead_letter")), payment()
    hostile = [None, b"", b"\xff\xfe", b"[" * 50_000, b"x" * 1_000_000, written(payment(amount_cents=None))]
    send(shop, *hostile, event)
    react(shop, until_caught_up=True)
    letters = committed(shop, "dead_letter")[before:]
    assert len(letters) == len(hostile)
    for letter in letters:
        jsonschema.validate(letter, topic_named("dead_letter").events)
    assert {letter["origin"]["topic"] for letter in letters} == {"payments"}
    assert effects(api.address, event) == [1]


def test_what_is_refused_or_abandoned_has_an_outcome_and_a_dead_letter_with_the_reason(
    shop: Settings, api: PaymentApi
) -> None:
    before, refused, poison, good = len(committed(shop, "dead_letter")), payment(amount_cents=-1), payment(), payment()
    ask(api.address, "POST", "/behaviour", {"mode": "fail", "payments": [poison["payment_id"]]})
    send(shop, refused, poison, good)
    react(shop, until_caught_up=True)
    assert outcomes(shop, refused, poison, good) == [["declined"], ["abandoned"], [api.outcome(good["event_id"])]]
    assert effects(api.address, refused, poison, good) == [0, 0, 1]
    reasons = sorted(letter["reason"] for letter in committed(shop, "dead_letter")[before:])
    assert [reason[:12] for reason in reasons] == ["6 tries fail", "the API reje"]


def test_an_outage_ends_a_bounded_run_with_the_way_out_and_loses_nothing(shop: Settings, api: PaymentApi) -> None:
    event = payment()
    send(shop, event)
    failing = Behaviour(mode=Mode.FAIL)

    def break_down() -> None:
        until(lambda: calls(api.address, event)[0] > 0)
        api.behaviours.change(failing)

    api.behaviours.change(Behaviour(mode=Mode.FAIL, calls=10_000))  # it says that it is well, until it has been called
    thread = Thread(target=break_down)
    thread.start()
    with pytest.raises(LakehouseError, match="lakehouse payment-api"):
        react(shop, until_caught_up=True)
    thread.join()
    with pytest.raises(LakehouseError, match="does not answer, or reports that it is not healthy"):
        react(shop, until_caught_up=True)
    assert outcomes(shop, event) == [[]]
    api.behaviours.change(Behaviour())
    react(shop, until_caught_up=True)
    assert (effects(api.address, event), outcomes(shop, event)) == ([1], [[api.outcome(event["event_id"])]])


def test_an_api_that_was_never_started_is_an_error_with_the_command(fresh_home: Settings) -> None:
    with pytest.raises(LakehouseError, match="lakehouse payment-api"):
        react(fresh_home)


def test_asked_to_end_it_ends_with_a_summary_also_during_an_outage(shop: Settings, api: PaymentApi) -> None:
    event = payment()
    send(shop, event)
    environ = {"LAKEHOUSE_REACTOR__API": api.address, "LAKEHOUSE_REACTOR__CALL_SECONDS": "0.5"}
    api.behaviours.change(Behaviour(mode=Mode.FAIL, calls=10_000))
    with start("streaming.roles.reactor", home=shop.home, **environ) as process:
        until(lambda: calls(api.address, event)[0] > 0)
        api.behaviours.change(Behaviour(mode=Mode.HANG))
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=300) == 0
        assert process.stdout
        assert "0 records in" in process.stdout.read()
    assert outcomes(shop, event) == [[]]
    api.behaviours.change(Behaviour())
    react(shop, until_caught_up=True)
    assert len(outcomes(shop, event)[0]) == 1
