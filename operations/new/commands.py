"""Commands that add to the project: new topic, job, model."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from config.settings import ROOT

app = typer.Typer()
new = typer.Typer(help="Working skeletons: a topic, a job, a model.", no_args_is_help=True)
app.add_typer(new, name="new")
console = Console(highlight=False, soft_wrap=True)

Name = Annotated[str, typer.Argument(help="Small letters and underscores, as in page_views.")]


@new.command()
def topic(
    name: Name,
    key: Annotated[str | None, typer.Option(help="The field by which its records are partitioned.")] = None,
) -> None:
    """Add a topic: its form, the silver table it lands in, its rules and a test.

    Example: lakehouse new topic shipments --key parcel_id
    """
    from operations.new.skeleton import topic as make

    files = make(name, key)
    _tell(files, "lakehouse broker start creates it; with a Kafka of your own it is there already.")


@new.command()
def job(
    name: Name,
    source: Annotated[str, typer.Option("--from", help="The silver table that it follows.")],
    by: Annotated[str | None, typer.Option(help="The column that it counts by; by default the topic's key.")] = None,
) -> None:
    """Add a job: events of a silver table counted by hour, the gold table it writes, its rules and a test.

    Example: lakehouse new job shipments_per_hour --from silver.shipments
    """
    from operations.new.skeleton import job as make

    files = make(name, source, by)
    _tell(files, f"lakehouse stream run {name}")


@new.command()
def model(
    name: Name,
    source: Annotated[str, typer.Option("--from", help="The silver or gold table that it reads.")],
) -> None:
    """Add a dbt model: its SQL, and its YAML twin with descriptions, a data test and a unit test.

    Example: lakehouse new model shipments_per_day --from gold.shipments_per_hour
    """
    from operations.new.skeleton import model as make

    files = make(name, source)
    _tell(files, f"lakehouse dbt build --select {name}")


def _tell(files: list[Path], then: str) -> None:
    for file in files:
        console.print(f"  {file.relative_to(ROOT)}", markup=False)
    tests = [str(file.relative_to(ROOT)) for file in files if file.name.startswith("test_")]
    if tests:
        console.print(f"Its test: make test ARGS={' '.join(tests)}", markup=False)
    console.print(f"Then: {then}", markup=False)
