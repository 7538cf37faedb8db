"""A run that the tests of the simulator look at from all sides."""

import pytest

from local.simulator.plan import Plan
from local.simulator.records import Record
from local.simulator.shop import shard_records

PLAN = Plan(events=60_000, late=0.02, duplicates=0.02, malformed=0.01)


@pytest.fixture(scope="session")
def plan() -> Plan:
    return PLAN


@pytest.fixture(scope="session")
def records(plan: Plan) -> list[Record]:
    return [record for shard in range(plan.shards) for record in shard_records(plan, shard)]


@pytest.fixture(scope="session")
def edge_records() -> list[Record]:
    return shard_records(Plan(events=20_000, edge=True), 0)
