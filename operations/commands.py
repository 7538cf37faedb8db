"""Commands for operation: doctor, sql, trace, shell, down, demo."""

from typing import Annotated

import typer

from config.settings import load_settings
from config.terminal import Terminal

app = typer.Typer()
console = Terminal()


@app.command()
def doctor() -> None:
    """Check Java, Python, memory, disk, ports, jars and configuration, and say how to fix what is wrong.

    Example: lakehouse doctor
    """
    from operations.doctor import run_checks

    raise typer.Exit(run_checks(console))


@app.command()
def sql(
    query: Annotated[str | None, typer.Argument(help="One SQL statement; without it the tables are listed.")] = None,
    rows: Annotated[int, typer.Option(help="Maximum number of rows.")] = 50,
) -> None:
    """Query any table by its name.

    Example: lakehouse sql "select type, count(*) from silver.clicks group by type"
    """
    from operations.query import list_tables, show

    settings = load_settings()
    if query is None:
        list_tables(settings, console)
    else:
        show(settings, query, rows, console)


@app.command()
def trace(
    event: Annotated[str, typer.Argument(metavar="EVENT_ID", help="An event id, or TOPIC/PARTITION/OFFSET.")],
) -> None:
    """Show where an event is in every layer, and why; exit code 1 if it is in none.

    Example: lakehouse trace clicks/0/42
    """
    from operations.trace import origins
    from operations.trace import trace as follow

    settings = load_settings()
    topic, _, rest = event.partition("/")
    partition, _, offset = rest.partition("/")
    if partition.isdigit() and offset.isdigit():
        found = [(topic, int(partition), int(offset))]
    else:
        found = origins(settings, event)
    if not found:
        console.print(f"No table contains '{event}'. If it was just sent: lakehouse stream status")
        raise typer.Exit(1)
    known = False
    for origin in found:
        console.print("/".join(str(part) for part in origin))
        for step in follow(settings, origin):
            known |= step.found
            console.print(f"  {'✓' if step.found else '–'} {step.table:<22} {step.detail}")
    raise typer.Exit(0 if known else 1)


@app.command()
def shell(
    notebook: Annotated[bool, typer.Option("--notebook", help="Open a Jupyter notebook instead.")] = False,
) -> None:
    """Open a Python shell with `spark`, `settings` and every table by name.

    Example: lakehouse shell
    """
    settings = load_settings()
    if notebook:
        from operations.notebook import open_notebook

        raise typer.Exit(open_notebook(settings))
    from operations.query import open_shell

    open_shell(settings)


@app.command()
def down() -> None:
    """Stop this home's background processes: the Thrift server, the catalog, the broker.

    Example: lakehouse down
    """
    from local.broker import Broker
    from local.catalog import Catalog
    from local.thrift import Thrift
    from operations.demo.run import demo_home

    settings = load_settings()
    homes = (settings, demo_home(settings))
    servers = [kind(each) for each in homes for kind in (Thrift, Catalog)]
    running = [(each.title, found.pid) for each in servers if (found := each.stop()).running]
    brokers = [] if settings.kafka.servers else [Broker(each) for each in homes]
    running += [("Kafka", stopped.pid) for each in brokers if (stopped := each.stop()).running]
    for title, pid in running:
        console.print(f"{title} (process {pid}) is stopped.")
    if not running:
        note = " An external Kafka is configured." if settings.kafka.servers else ""
        console.print(f"Nothing was running.{note}")


@app.command()
def demo(
    events: Annotated[int, typer.Option(help="Number of valid events to generate.", min=1000)] = 100_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same events.")] = 7,
    part: Annotated[str | None, typer.Option(help="Run only this part, on what the parts before it left.")] = None,
) -> None:
    """Run everything start to end in a home of its own, which is emptied first; stop what was started.

    Example: lakehouse demo --events 20000
    """
    from operations.demo.run import run

    raise typer.Exit(run(console, events=events, seed=seed, part=part))
