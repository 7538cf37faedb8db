"""Step: retry the day's failed payments at an API that fails at first."""

from threading import Thread

from local.payment_api.behaviour import Behaviour, Mode
from local.payment_api.server import PaymentApi
from operations.demo.context import Context
from operations.demo.progress import progress
from operations.demo.step import Step
from operations.demo.table import show_equal
from streaming.roles.reactor.reactor import react


def run(context: Context) -> bool:
    """Retry every failed payment; return whether each took effect exactly once."""
    settings = context.settings
    # Fewer failures than a payment has tries: on a small day all of them may hit one payment, which would be given up.
    failing = settings.reactor.tries - 1
    api = PaymentApi(settings, Behaviour(mode=Mode.FAIL, calls=failing))
    serving = Thread(target=api.serve_forever, kwargs={"poll_interval": 0.1})
    serving.start()
    try:
        with progress(context.console, f"Retrying; the API fails the first {failing} calls"):
            seen = react(settings, until_caught_up=True, watch=lambda _: None)
        calls, effects = api.store.totals()
    finally:
        api.stop()
        serving.join()
    context.console.print(
        f"{calls:,} calls, of which the API failed {min(failing, calls)}: "
        f"{seen.counts['accepted']:,} payments accepted, "
        f"{seen.counts['declined']:,} declined, {seen.counts['copies']:,} duplicates skipped."
    )
    failed = context.truth.events["payments"]["payment_failed"]
    rows = [("failed payments that took effect once", failed, effects)]
    return show_equal(context.console, ("in Kafka", "at the API"), [rows])


step = Step(title="Reactor: retry each failed payment exactly once", part="stream", run=run)
