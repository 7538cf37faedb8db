"""Commands of the batch layer: batch run, status, publish."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from batch import fence, publications
from config.settings import load_settings
from config.terminal import Terminal, styled
from lake.locks import single_writer

if TYPE_CHECKING:
    from batch.run import Result

app = typer.Typer()
batch = typer.Typer(help="The batch layer: run, status, publish.", no_args_is_help=True)
app.add_typer(batch, name="batch")
console = Terminal()


@batch.command()
def run(
    full: Annotated[bool, typer.Option("--full", help="Recompute all days, not only those that changed.")] = False,
) -> None:
    """Recompute silver and gold from the archive, check them, and publish them; exit code 1 if a check fails.

    Example: lakehouse batch run
    """
    from batch.run import run as run_batch
    from config.spark import session
    from lake.catalog import keep_up
    from lake.ledger import records_read

    settings = load_settings()
    with single_writer(settings, ["batch"]), console.status("Starting Spark …") as status:
        spark = session(settings, "lakehouse batch", records=records_read(settings))
        result = run_batch(spark, settings, full=full, on_step=lambda what: status.update(f"{what} …"))
        keep_up(settings)  # the first publication adds views; later ones are read through them
    show(result, console)
    raise typer.Exit(0 if result.publication else 1)


@batch.command()
def status() -> None:
    """List the runs: the records and the event time that each covers, and which one is served.

    Example: lakehouse batch status
    """
    settings = load_settings()
    table = Table("run", "began", "records", "complete until", "")
    served = publications.served_publication(settings)
    published = {each.run for each in publications.publications(settings)}
    kept = {each.run for each in publications.kept(settings)}
    for name, began in fence.runs(settings).items():
        limit = fence.of_run(settings, name)
        state = "not published" if name not in published else "kept" if name in kept else "dropped"
        table.add_row(
            name,
            f"{began:%Y-%m-%d %H:%M:%S}",
            f"{limit.records:,}",
            f"{limit.complete_until:%Y-%m-%d %H:%M:%S}" if limit.complete_until else "–",
            styled("served", "green") if served and served.run == name else state,
        )
    if not table.row_count:
        console.print("There is no run yet. Start with: lakehouse batch run")
        return
    console.print(table)


@batch.command()
def publish(
    run: Annotated[str, typer.Option(help="The run to serve, as listed by `lakehouse batch status`.")],
) -> None:
    """Serve a kept run again: every reader sees its tables from the next query on.

    Example: lakehouse batch publish --run 20261116T120000000
    """
    settings = load_settings()
    with single_writer(settings, ["batch"]):
        published = publications.publish_again(settings, run)
    console.print(f"Run {run} is served again, as publication {published.number}.")


def show(result: "Result", console: Terminal) -> None:
    """Print what a run computed and what it cost."""
    if result.publication and not result.changed:
        console.print(f"Nothing was landed since run {result.publication.run}, which is served.")
        return
    days = sum(result.changed.values())
    how = "all of it" if result.full else f"{days:,} segments of {len(result.changed)} tables, as only they changed"
    console.print(f"Run {result.run}: {result.fence.records:,} records of the archive, {how}.")
    cost = result.cost
    console.print(
        f"{cost.seconds:.1f} s ({result.audit_seconds:.1f} s of them checks), {cost.cpu_seconds:.1f} CPU-seconds, "
        f"{cost.bytes_written / 2**20:.1f} MiB written."
    )
    if result.audit:
        result.audit.show(console)
    if result.publication:
        until = result.fence.complete_until
        when = f", complete until {until:%Y-%m-%d %H:%M:%S}" if until else ""
        console.print(f"✓ Published as publication {result.publication.number}{when}.", style="green")
    else:
        console.print("✗ Not published: readers still see the previous publication.", style="red")
