"""The plan: what it refuses, and how it cuts the work."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from config.errors import LakehouseError
from local.simulator.plan import Plan


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"events": 0}, "--events"),
        ({"days": 0}, "--days"),
        ({"late": 1.5}, "--late"),
        ({"hot_key": -0.1}, "--hot-key"),
        ({"malformed": float("nan")}, "--malformed"),
        ({"rate": 0.0}, "--rate"),
        ({"live": 0}, "--live"),
        ({"live": 60, "rate": 10.0}, "--live and --rate"),
        ({"live": 60, "days": 2}, "--live and --days"),
        ({"live": 60, "edge": True}, "--live and --edge"),
        ({"start": datetime(1969, 1, 1, tzinfo=UTC)}, "--start"),
        ({"start": datetime(2026, 1, 5, tzinfo=timezone(timedelta(hours=1)))}, "--start"),
    ],
)
def test_what_cannot_be_simulated_is_refused_by_its_option(options: dict[str, Any], named: str) -> None:
    with pytest.raises(LakehouseError, match=named):
        Plan(**options)


@pytest.mark.parametrize("events", [1, 24_999, 25_001, 100_003, 2_000_000])
def test_the_quotas_of_the_shards_add_up_to_the_events(events: int) -> None:
    plan = Plan(events=events)
    quotas = [plan.quota(shard) for shard in range(plan.shards)]
    assert sum(quotas) == events
    assert max(quotas) - min(quotas) <= 1


def test_a_run_is_named_by_seed_and_start() -> None:
    assert Plan(seed=3).run != Plan(seed=4).run
    assert Plan(seed=3, events=10).run == Plan(seed=3, events=20).run
