"""A home with a real broker, and what a shop has sent to it."""

from collections.abc import Iterator

import pytest

from config.settings import Settings
from config.terminal import Terminal
from local.broker import Broker
from local.simulator.plan import Plan
from local.simulator.run import simulate


@pytest.fixture
def waiting(fresh_home: Settings, spark: object) -> Iterator[Settings]:
    """A log with records that wait to be landed."""
    broker = Broker(fresh_home)
    broker.start()
    try:
        simulate(
            fresh_home, Plan(seed=5, events=3000, malformed=0.02, late=0.03, duplicates=0.03), Terminal(quiet=True)
        )
        yield fresh_home
    finally:
        broker.stop()
