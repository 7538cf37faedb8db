"""Faults of the reactor and of the API, for real: every failed payment takes effect once and has one outcome."""

import random
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from payments import QUICK, ask, calls, effects, outcomes, payment, send, serving, start, until
from processes import kill_broker

from config.settings import Settings
from local.broker import Broker
from local.payment_api.server import PaymentApi
from streaming.roles.reactor.reactor import react

Events = list[dict[str, Any]]
# What has been done when the reactor dies there: payments that took effect, and outcomes that readers see.
STEPS = {
    "reactor: before the call": (False, False),
    "reactor: called": (True, False),
    "reactor: records written": (True, False),
    "reactor: offsets written": (True, False),
    "reactor: committed": (True, True),
}


@pytest.fixture
def api(tmp_path: Path, settings: Settings) -> Iterator[PaymentApi]:
    with serving(settings.at(tmp_path)) as api:
        yield api


@pytest.fixture
def shop(settings: Settings, broker: object, api: PaymentApi) -> Settings:
    """A log in which everything so far is settled."""
    shop = settings.model_copy(update={"reactor": QUICK.model_copy(update={"api": api.address})})
    react(shop, until_caught_up=True)
    return shop


def reactor(home: Path, address: str, *arguments: str, **environ: str) -> subprocess.Popen[str]:
    quick = {f"LAKEHOUSE_REACTOR__{name.upper()}": str(value) for name, value in QUICK.model_dump().items()}
    return start(
        "streaming.roles.reactor", *arguments, home=home, **quick | {"LAKEHOUSE_REACTOR__API": address} | environ
    )


def each_took_effect_once_and_has_one_outcome(settings: Settings, address: str, events: Events) -> None:
    assert effects(address, *events) == [1] * len(events)
    assert [len(each) for each in outcomes(settings, *events)] == [1] * len(events)


@pytest.mark.faults
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_any_step_the_next_one_continues_with_equal_results(
    shop: Settings, api: PaymentApi, step: str
) -> None:
    events = [payment() for _ in range(8)]
    send(shop, *events, *events[:2])
    with reactor(shop.home, api.address, "--until-caught-up", LAKEHOUSE_FAILPOINT=step) as process:
        assert process.wait(timeout=300) == -signal.SIGKILL
    took_effect, was_told = STEPS[step]
    assert any(effects(api.address, *events)) == took_effect
    assert any(outcomes(shop, *events)) == was_told
    react(shop, until_caught_up=True)
    each_took_effect_once_and_has_one_outcome(shop, api.address, events)
    assert (max(calls(api.address, *events)) > 1) == (took_effect and not was_told), "it was called once more"


@contextmanager
def api_process(home: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Serve the API from a process of its own; it has the same address every time."""
    process = start("local.payment_api", home=home)
    try:
        assert process.stdout
        yield process, process.stdout.readline().split()[5].rstrip(".")
    finally:
        process.kill()
        process.wait()


@pytest.mark.faults
def test_the_api_killed_under_the_reactor_is_waited_for(shop: Settings, tmp_path: Path) -> None:
    events, home = [payment() for _ in range(200)], tmp_path / "api"
    send(shop, *events)
    with api_process(home) as (_, address):
        process = reactor(shop.home, address, "--until-caught-up")
        until(lambda: sum(effects(address, *events)) > 0)
    with process, api_process(home) as (_, same):
        assert same == address
        assert process.wait(timeout=300) == 0
        each_took_effect_once_and_has_one_outcome(shop, address, events)


@pytest.fixture
def own_broker(fresh_home: Settings) -> Iterator[Broker]:
    broker = Broker(fresh_home)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_killed_at_random_with_the_api_and_the_broker(fresh_home: Settings, own_broker: Broker, seed: int) -> None:
    chance, home, events = random.Random(seed), fresh_home.home, []
    for round_ in range(8):
        more = [payment() for _ in range(chance.randrange(20, 200))]
        send(fresh_home, *more, *chance.sample(more, 5))
        events += more
        with api_process(home) as (api, address), reactor(home, address) as process:
            # By what it has done, not by the clock: a slow machine would kill it before it has begun.
            done = chance.randrange(len(more))
            until(lambda: sum(effects(address, *more)) > done, seconds=120)  # noqa: B023 - asked in this round only
            for victim in chance.sample([api, process], chance.choice([1, 2])):
                victim.send_signal(signal.SIGKILL)
            if round_ % 3 == 2:
                kill_broker(own_broker)
                own_broker.start()
            process.kill()
    with api_process(home) as (_, address):
        with reactor(home, address, "--until-caught-up") as process:
            assert process.wait(timeout=300) == 0
        each_took_effect_once_and_has_one_outcome(fresh_home, address, events)
        assert sum(calls(address, *events)) > len(events)


@pytest.mark.faults
@pytest.mark.slow
def test_a_reactor_that_stood_still_while_another_took_over_sends_nothing(
    fresh_home: Settings, own_broker: Broker, tmp_path: Path
) -> None:
    """Two homes, as on two machines, and one log."""
    events, log = [payment() for _ in range(40)], f"127.0.0.1:{own_broker.status().port}"
    send(fresh_home, *events)
    with api_process(tmp_path / "api") as (_, address):
        ask(address, "POST", "/behaviour", {"mode": "slow", "seconds": 0.3})
        with reactor(tmp_path / "one", address, LAKEHOUSE_KAFKA__SERVERS=log) as still:
            until(lambda: sum(effects(address, *events)) > 0)
            still.send_signal(signal.SIGSTOP)
            assert not any(outcomes(fresh_home, *events)), "it stands between a call and its outcome"
            ask(address, "POST", "/behaviour", {"mode": "normal"})
            with reactor(tmp_path / "two", address, "--until-caught-up", LAKEHOUSE_KAFKA__SERVERS=log) as other:
                assert other.wait(timeout=300) == 0
            still.send_signal(signal.SIGCONT)
            more = [payment() for _ in range(10)]
            send(fresh_home, *more)
            until(lambda: sum(effects(address, *more)) == 10 or still.poll() is not None, seconds=120)
            still.send_signal(signal.SIGTERM)
        with reactor(tmp_path / "two", address, "--until-caught-up", LAKEHOUSE_KAFKA__SERVERS=log) as other:
            assert other.wait(timeout=300) == 0
        each_took_effect_once_and_has_one_outcome(fresh_home, address, events + more)
