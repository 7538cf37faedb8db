"""The whole demo leaves personal data only where they came in: the archive, the users topic and the untrusted edge."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from personal_data import leaks
from raw_clicks import records_of

from config.settings import ROOT, Settings
from local.simulator.plan import Plan
from operations.demo.run import demo_home
from operations.demo.steps.s140_edge import EVENTS

SEED, SOME = 9, 40
EMAILS = "@example.com"
"""The end of every e-mail address that the simulator makes; what comes before it is the user's id."""


def personal(plan: Plan) -> Iterator[set[str]]:
    """Return the names and the full IP addresses in the raw clicks of a plan."""
    clicks = []
    for record in records_of(plan, "clicks_raw"):
        if record.label != "malformed":
            clicks.append(json.loads(record.value))
    for field in ("name", "ip"):
        yield {click[field] for click in clicks if field in click}


@pytest.mark.slow
def test_a_scan_of_the_demos_home_finds_none(fresh_home: Settings) -> None:
    demo = [sys.executable, "-m", "lakehouse", "demo", "--events", "2000", "--seed", str(SEED)]
    done = subprocess.run(demo, cwd=ROOT, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    home = demo_home(fresh_home)
    assert any(home.home.glob("broker/data/clicks_raw-*/*.log"))
    plan = replace(Plan(seed=SEED + 1, events=EVENTS, rate=100_000, edge=True), start=Plan().start + timedelta(days=1))
    names, addresses = personal(plan)
    assert len(names) > 5
    assert len(addresses) > 100
    assert leaks(home, [EMAILS, *sorted(names)[:SOME], *sorted(addresses)[:SOME]]) == set()
