"""Commands that add to the project: new topic, job, join, model."""

from pathlib import Path
from typing import Annotated

import typer

from config.settings import ROOT
from config.terminal import Terminal

app = typer.Typer()
new = typer.Typer(help="Add a topic, a job, a join or a model, with every file it needs.", no_args_is_help=True)
app.add_typer(new, name="new")
console = Terminal()

Name = Annotated[str, typer.Argument(help="Lower-case letters and underscores, as in page_views.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="List the files, and write none.")]


@new.command()
def topic(
    name: Name,
    key: Annotated[str | None, typer.Option(help="The field that partitions its records.")] = None,
    dry_run: DryRun = False,
) -> None:
    """Add a topic, the silver table it lands in, its rules, and its form in the tests' oracle.

    Example: lakehouse new topic shipments --key parcel_id
    """
    from operations.new.topic import topic as files_of

    _write(files_of(name, key, ROOT), dry_run, "lakehouse broker start")


@new.command()
def job(
    name: Name,
    source: Annotated[str, typer.Option("--from", help="The silver table that it reads.")],
    key: Annotated[str | None, typer.Option(help="The column that it counts by.")] = None,
    window: Annotated[str | None, typer.Option(help="The length of a window.")] = None,
    slide: Annotated[str | None, typer.Option(help="How often a window starts, if windows overlap.")] = None,
    session_gap: Annotated[str | None, typer.Option(help="Sessions instead of windows: the gap that ends one.")] = None,
    total: Annotated[str | None, typer.Option("--sum", help="A column of whole numbers to add up.")] = None,
    dry_run: DryRun = False,
) -> None:
    """Add a job that counts events in windows or sessions, its gold table, its rules, and its answer in the oracle.

    Example: lakehouse new job shipments_per_hour --from silver.shipments
    Example: lakehouse new job busy_parcels --from silver.shipments --window "1 hour" --slide "10 minutes"
    Example: lakehouse new job journeys --from silver.shipments --session-gap "30 minutes" --sum amount
    """
    from operations.new.job import job as files_of

    files = files_of(name, source, ROOT, key=key, window=window, slide=slide, session_gap=session_gap, total=total)
    _write(files, dry_run, f"lakehouse stream run {name} --until-caught-up")


@new.command()
def join(
    name: Name,
    left: Annotated[str, typer.Option(help="The silver table whose events come first.")],
    right: Annotated[str, typer.Option(help="The silver table whose events come after them.")],
    on: Annotated[str | None, typer.Option(help="The column that both have.")] = None,
    within: Annotated[str, typer.Option(help="How long after the first event the second may come.")] = "1 hour",
    dry_run: DryRun = False,
) -> None:
    """Add a join of two streams within a time, its gold table, its rules, and its answer in the oracle.

    Example: lakehouse new join paid_orders --left silver.orders --right silver.payments --within "2 hours"
    """
    from operations.new.join import join as files_of

    files = files_of(name, left, right, ROOT, on=on, within=within)
    _write(files, dry_run, f"lakehouse stream run {name} --until-caught-up")


@new.command()
def model(
    name: Name,
    source: Annotated[str, typer.Option("--from", help="The silver or gold table that it reads.")],
    dry_run: DryRun = False,
) -> None:
    """Add a dbt mart: its SQL, and its YAML file with descriptions, data tests and a unit test.

    Example: lakehouse new model shipments_per_day --from gold.shipments_per_hour
    """
    from operations.new.model import model as files_of

    _write(files_of(name, source, ROOT), dry_run, f"lakehouse dbt build --select +{name}")


def _write(files: dict[str, str], dry_run: bool, then: str) -> None:
    """Write the files of a change and name them, then the commands to run next."""
    from operations.new.files import refuse_existing, write

    if dry_run:
        refuse_existing(files, ROOT)
        _list("It would write:", list(files))
        console.print("Nothing was written. lakehouse dbt sync would add the dbt files.")
        return
    written = [str(file.relative_to(ROOT)) for file in write(files, ROOT)]
    _list("Edit these:", [name for name in written if name in files])
    _list("Written by lakehouse dbt sync:", [name for name in written if name not in files])
    console.print("Next:")
    console.print("  make test")
    console.print(f"  {then}")


def _list(title: str, names: list[str]) -> None:
    if names:
        console.print(title)
    for name in names:
        console.print(f"  {Path(name)}")
