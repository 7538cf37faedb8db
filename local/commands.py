"""Commands of the embedded Kafka: broker start, stop, status."""

from typing import Annotated

import typer

from config.settings import load_settings
from config.terminal import Terminal
from local.broker import Broker

app = typer.Typer()
broker = typer.Typer(help="The embedded Kafka: start, stop, status.", no_args_is_help=True)
app.add_typer(broker, name="broker")
console = Terminal()


@broker.command()
def start(
    reformat: Annotated[bool, typer.Option(help="Set a corrupt data folder aside; start with an empty log.")] = False,
) -> None:
    """Start the broker in the background, on loopback, and create the declared topics.

    Example: lakehouse broker start
    """
    settings = load_settings()
    with console.status("Starting Kafka …"):
        status = Broker(settings).start(reformat=reformat)
    console.print(f"Kafka is {status.note}, at 127.0.0.1:{status.port}. Log: {Broker(settings).log}")


@broker.command()
def stop() -> None:
    """Stop the broker cleanly; its data stays.

    Example: lakehouse broker stop
    """
    with console.status("Stopping Kafka …"):
        status = Broker(load_settings()).stop()
    console.print(f"Kafka (process {status.pid}) is stopped." if status.running else "Kafka was not running.")


@broker.command()
def status() -> None:
    """Show whether the broker is running; exit code 1 if it is not.

    Example: lakehouse broker status
    """
    settings = load_settings()
    if settings.kafka.servers:
        console.print(f"An external Kafka is configured: {settings.kafka.servers}. The embedded broker is not used.")
        return
    found = Broker(settings).status()
    console.print(f"Kafka: {found.note}" + (f", at 127.0.0.1:{found.port}" if found.running else ""))
    raise typer.Exit(0 if found.running else 1)
