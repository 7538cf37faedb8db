"""Commands of the catalog and the Thrift server: start, stop, status, refresh."""

import typer

from config.settings import load_settings
from config.terminal import Terminal
from local.background import Background
from local.catalog import Catalog
from local.thrift import Thrift

app = typer.Typer()
catalog = typer.Typer(help="The embedded catalog: start, stop, status, refresh.", no_args_is_help=True)
app.add_typer(catalog, name="catalog")
thrift = typer.Typer(help="Spark's Thrift server, for JDBC: start, stop, status.", no_args_is_help=True)
app.add_typer(thrift, name="thrift")
console = Terminal()


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
    """Show whether the catalog is running; exit code 1 if it is not.

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
    """Show whether the Thrift server is running; exit code 1 if it is not.

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
