"""Step: route the raw clicks of the web edge: drop bots, redact personal data, exactly once."""

from collections import Counter
from datetime import timedelta

from local.simulator.plan import Plan
from local.simulator.run import simulate
from operations.demo.context import Context
from operations.demo.progress import progress
from operations.demo.step import Step
from operations.demo.table import show_equal
from streaming.roles.router.router import run as route

EVENTS = 10_000


def run(context: Context) -> bool:
    """Route the raw clicks of the next day; return whether every click was read and every declared bot was dropped."""
    start = Plan().start + timedelta(days=1)
    plan = Plan(seed=context.seed + 1, events=EVENTS, start=start, rate=100_000, edge=True)
    truth = simulate(context.settings, plan, context.console)
    with progress(context.console, "Routing"):
        done, counts = route(context.settings, until_caught_up=True, watch=lambda *_: None)
    kinds = Counter(truth.bots["clicks_raw"].values())
    context.console.print(
        f"{counts.kept:,} of {done.records:,} raw clicks were redacted and routed to clicks. Bots that only their rate "
        f"gives away: {counts.dropped['bot: rate']:,} of {kinds['rate']:,} pages dropped, as a rate takes some pages."
    )
    return show_equal(
        context.console,
        ("generated", "found"),
        [
            [
                ("raw clicks read", truth.records["clicks_raw"], done.records),
                ("pages of bots that declare themselves, dropped", kinds["agent"], counts.dropped["bot: agent"]),
            ]
        ],
    )


step = Step(title="Router: bots and personal data leave the web edge, in transactions", part="edge", run=run)
