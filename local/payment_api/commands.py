"""Command of the payment API's stand-in: payment-api."""

import signal
from threading import Event, Thread
from typing import Annotated

import typer

from config.home import make_home
from config.locks import claim
from config.settings import load_settings
from config.terminal import Terminal
from local.payment_api.behaviour import Behaviour, Mode
from local.payment_api.server import PaymentApi

app = typer.Typer()
console = Terminal()


@app.command("payment-api")
def payment_api(
    behave: Annotated[Mode, typer.Option(help="How it behaves until that is changed.")] = Mode.NORMAL,
) -> None:
    """Serve a stand-in for the payment API on loopback until Ctrl-C; it stores idempotency keys on disk.

    While it runs, POST /behaviour makes it fail, hang, lose its responses, respond slowly or decline, as
    {"mode": "fail"}, with "calls": 10 for the next ten calls only; GET /effects returns what it did.

    Example: lakehouse payment-api

    Example: lakehouse payment-api --behave fail
    """
    settings = load_settings()
    make_home(settings)
    stop = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with claim(settings.home / "locks" / "payment-api.lock", "payment-api"):
        api = PaymentApi(settings, Behaviour(mode=behave))
        Thread(target=api.serve_forever, kwargs={"poll_interval": 0.1}).start()
        console.print(f"The payment API listens at {api.address}. Stop it with Ctrl-C.")
        stop.wait()
        calls, effects = api.store.totals()
        api.stop()
    console.print(f"Since the first start: {calls:,} calls, {effects:,} payments that took effect. Both are kept.")
