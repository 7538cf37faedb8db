"""Commands of the local stand-ins: broker, catalog, thrift."""

from typing import Annotated

import typer
from rich.console import Console

from config.settings import load_settings
from local.background import Background
from local.broker import Broker
from local.catalog import Catalog
from local.thrift import Thrift

app = typer.Typer()
broker = typer.Typer(help="The embedded Kafka: start, stop, status.", no_args_is_help=True)
app.add_typer(broker, name="broker")
catalog = typer.Typer(help="The embedded catalog: start, stop, status, refresh.", no_args_is_help=True)
app.add_typer(catalog, name="catalog")
thrift = typer.Typer(help="Spark's Thrift server, for JDBC: start, stop, status.", no_args_is_help=True)
app.add_typer(thrift, name="thrift")
console = Console(highlight=False, soft_wrap=True)


@broker.command()
def start(
    reformat: Annotated[bool, typer.Option(help="Set a broken data folder aside and begin with an empty log.")] = False,
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
    """Shut the broker down cleanly; its data stays.

    Example: lakehouse broker stop
    """
    with console.status("Stopping Kafka …"):
        status = Broker(load_settings()).stop()
    console.print(f"Kafka (process {status.pid}) is stopped." if status.running else "Kafka was not running.")


@broker.command()
def status() -> None:
    """Say whether the broker runs; exit code 1 when it does not.

    Example: lakehouse broker status
    """
    settings = load_settings()
    if settings.kafka.servers:
        console.print(f"An external Kafka is configured: {settings.kafka.servers}. The embedded broker is not used.")
        return
    found = Broker(settings).status()
    console.print(f"Kafka: {found.note}" + (f", at 127.0.0.1:{found.port}" if found.running else ""))
    raise typer.Exit(0 if found.running else 1)


@catalog.command("start")
def start_catalog() -> None:
    """Start the catalog in the background, on loopback: names for dbt, SQL clients and notebooks at once.

    Example: lakehouse catalog start
    """
    status = Catalog(load_settings()).start()
    console.print(f"The catalog is {status.note}" + (f", at 127.0.0.1:{status.port}." if status.port else "."))


@catalog.command("stop")
def stop_catalog() -> None:
    """Shut the catalog down cleanly; the names stay.

    Example: lakehouse catalog stop
    """
    _stop(Catalog(load_settings()))


@catalog.command("status")
def status_of_catalog() -> None:
    """Say whether the catalog runs; exit code 1 when it does not.

    Example: lakehouse catalog status
    """
    _tell(Catalog(load_settings()))


@catalog.command("refresh")
def refresh_catalog() -> None:
    """Bring every name up to date with the tables, generations and publications that there are.

    Example: lakehouse catalog refresh
    """
    from lake.catalog import connect

    with console.status("Starting Spark …"):
        connect(load_settings(), "lakehouse catalog").stop()
    console.print("Every name is up to date.")


@thrift.command("start")
def start_thrift() -> None:
    """Start Spark's Thrift server in the background, on loopback, every name up to date.

    Example: lakehouse thrift start
    """
    from lake.catalog import bring_up

    settings = load_settings()
    with console.status("Starting the Thrift server …"):
        Catalog(settings).start()
        bring_up(settings)
        status = Thrift(settings).start()
    console.print(f"The Thrift server is {status.note}: jdbc:hive2://127.0.0.1:{status.port}/default")


@thrift.command("stop")
def stop_thrift() -> None:
    """Shut the Thrift server down.

    Example: lakehouse thrift stop
    """
    _stop(Thrift(load_settings()))


@thrift.command("status")
def status_of_thrift() -> None:
    """Say whether the Thrift server runs; exit code 1 when it does not.

    Example: lakehouse thrift status
    """
    _tell(Thrift(load_settings()))


def _stop(server: Background) -> None:
    status = server.stop()
    console.print(
        f"{server.title} (process {status.pid}) is stopped." if status.running else f"{server.title} was not running."
    )


def _tell(server: Background) -> None:
    found = server.status()
    console.print(f"{server.title}: {found.note}" + (f", at 127.0.0.1:{found.port}" if found.running else ""))
    raise typer.Exit(0 if found.running else 1)
