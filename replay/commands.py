"""Commands of replay: plan, run, verify, promote, rollback, list, drop."""

import os
from dataclasses import replace
from functools import partial
from typing import Annotated

import typer
from rich.table import Table

from config.errors import LakehouseError
from config.settings import Settings, load_settings
from config.terminal import Terminal, styled
from lake.generations import Source
from lake.location import table_location
from lake.locks import ensure_free
from replay import manifest
from replay.plan import EARLIEST, show_plan
from replay.plan import plan as make_plan
from streaming.job import Job, downstream, job_named, jobs

app = typer.Typer()
replay = typer.Typer(help="Kappa: rebuild history, prove it, then serve it.", no_args_is_help=True)
app.add_typer(replay, name="replay")
console = Terminal()
NICENESS = 15
"""The niceness of a replay: it gets the CPU time that the live jobs leave."""

Since = Annotated[
    str, typer.Option("--from", help='earliest, an arrival time, or offsets: \'{"clicks": {"0": 100}}\'.')
]
From = Annotated[Source, typer.Option("--source", help="Kafka, the archive (bronze), or the served silver tables.")]
Chosen = Annotated[
    str | None, typer.Option("--jobs", help="Only these jobs, separated by commas, and what depends on them.")
]
Generation = Annotated[int, typer.Argument(help="The generation, as `lakehouse replay list` names it.")]


@replay.command()
def plan(source: From = "kafka", since: Since = EARLIEST, chosen: Chosen = None) -> None:
    """Show what a replay would read, how long it takes and what blocks it; exit code 1 if something does.

    Example: lakehouse replay plan --jobs views_per_minute
    """
    settings = load_settings()
    planned = make_plan(settings, _jobs(chosen), source, since)
    show_plan(planned, console)
    raise typer.Exit(1 if planned.blockers else 0)


@replay.command()
def run(
    source: From = "kafka",
    since: Since = EARLIEST,
    chosen: Chosen = None,
    resume: Annotated[int | None, typer.Option(help="Resume the interrupted replay of this generation.")] = None,
    cores: Annotated[int | None, typer.Option(min=1, help="Cores to use; by default half of those configured.")] = None,
    mode: Annotated[
        manifest.Mode,
        typer.Option(help="bounded: compute history at once. stream: read it from the first commit, as a reference."),
    ] = "bounded",
) -> None:
    """Build a new generation of silver and gold with the same jobs; the served tables are not touched.

    Example: lakehouse replay run --source bronze
    """
    from config.spark import session
    from lake.ledger import records_read
    from replay.run import run as run_replay
    from streaming.progress_display import shown

    settings = _capped(load_settings(), cores)
    ensure_free(settings, ["replay"])
    if resume is not None:
        todo = manifest.interrupted(settings, resume)
    else:
        planned = make_plan(settings, _jobs(chosen), source, since, mode)
        show_plan(planned, console)
        if planned.blockers:
            raise LakehouseError(*planned.blockers[0])
        todo = planned.replay
    os.nice(NICENESS)  # before Spark starts, which inherits it
    with console.status("Starting Spark …"):
        spark = session(settings, f"lakehouse replay g{todo.generation}", records=records_read(settings))
    with shown(console) as on_progress:
        built = run_replay(spark, settings, todo, on_progress)
    rate = f", {built.records / built.seconds:,.0f} records/s" if built.records and built.seconds else ""
    console.print(
        f"Generation {built.generation} is built, in {built.seconds:.0f} s{rate}. "
        f"Next: lakehouse replay verify {built.generation}"
    )


@replay.command()
def verify(generation: Generation) -> None:
    """Compare a generation with the served tables and the batch layer, row by row; write its certificate.

    It runs every check that `promote` runs; exit code 1 if a row differs without a reason or a rule is broken.

    Example: lakehouse replay verify 2
    """
    from config.spark import session
    from replay.certificate import verify as certify
    from replay.checks import refuse_unfit

    settings = load_settings()
    todo = manifest.replay_of(settings, generation)
    refuse_unfit(settings, todo, todo.jobs_to_run())  # before Spark starts
    with console.status("Starting Spark …") as status:
        spark = session(settings, "lakehouse replay verify")
        certificate = certify(spark, settings, todo, lambda what: status.update(f"Checking {what} …"))
    manifest.save(settings, replace(todo, state="verified"))
    for what, tables in certificate.values["against"].items():
        table = Table("table", "equal", "differing", "reasons", title=f"Generation {generation} against {what}")
        for name, each in tables.items():
            reasons = ", ".join(f"{reason}: {rows:,}" for reason, rows in each["by_reason"].items())
            table.add_row(name, f"{each['equal']:,}", f"{sum(each['by_reason'].values()):,}", reasons or "–")
        console.print(table)
    console.print(f"The certificate: {manifest.folder(settings, generation) / 'certificate.html'}")
    for each in certificate.values["notes"]:
        console.print(f"! {each}", style="yellow")
    for each in certificate.failures:
        console.lines("✗ {table} breaks {rule}: {rows:,} rows.\n    {look}".format(**each), style="red")
    if certificate.unexplained:
        console.print(f"✗ {certificate.unexplained:,} rows differ without a reason.", style="red")
    if certificate.unexplained or certificate.failures:
        raise typer.Exit(1)
    serve = f"lakehouse replay promote {generation}"
    console.print(f"✓ Nothing is unexplained, no rule is broken. To serve it: {serve}", style="green")


@replay.command()
def promote(
    generation: Generation,
    accept: Annotated[str | None, typer.Option(help="Serve it although rows have no reason; state why.")] = None,
) -> None:
    """Serve a verified generation: one commit switches every table for every reader.

    Example: lakehouse replay promote 2
    """
    from config.spark import session
    from lake.catalog import keep_up
    from replay import promotion

    settings = load_settings()
    todo = manifest.replay_of(settings, generation)
    if promotion.is_promoted(settings, todo):  # as after a kill that came right after the switch
        console.print(f"✓ Generation {generation} is served already.", style="green")
        return
    ensure_free(settings, ["replay"])
    with console.status("Checking its quality …"):
        spark = session(settings, "lakehouse replay promote")
        audit = promotion.promote(spark, settings, todo, accept, partial(keep_up, settings))
    audit.show(console)
    if not audit.passed:
        console.print("✗ Not promoted: the served tables stay as they are.", style="red")
        raise typer.Exit(1)
    console.print(f"✓ Generation {generation} is served.", style="green")
    console.print("A running `lakehouse stream run` stops by itself; the next one continues with this generation.")


@replay.command()
def rollback() -> None:
    """Serve the generations from before the last switch again.

    Example: lakehouse replay rollback
    """
    from replay.promotion import rollback as switch_back

    settings = load_settings()
    changed = switch_back(settings)
    for number in sorted(set(changed.values())):
        names = ", ".join(sorted(name for name, each in changed.items() if each == number))
        console.print(f"Generation {number} is served again: {names}.")
    console.print("To see how far it is behind: lakehouse stream status. To catch up: lakehouse stream run")


@replay.command("list")
def list_generations() -> None:
    """List the generations: their source, their size, and which one is served.

    Example: lakehouse replay list
    """
    from lake import generations

    settings = load_settings()
    served = generations.live(settings)
    table = Table("generation", "state", "tables", "versions above 1", "source", "records", "MiB")
    every = {number for each in generations.replayable_tables() for number in generations.built(settings, each)}
    known = {each.generation: each for each in manifest.replays(settings) if each.state != "dropped"}
    for number in sorted(every | known.keys()):  # a replay that was killed early has no table yet
        names = [each.name for each in generations.replayable_tables() if number in generations.built(settings, each)]
        mine = [name for name in names if served[name] == number]
        about = known.get(number)
        state = styled(f"served ({len(mine)} tables)", "green") if mine else about.state if about else "superseded"
        versions = ", ".join(f"{n} v{v}" for n, v in about.versions.items() if v > 1) if about else ""
        table.add_row(
            str(number),
            state,
            str(len(names)),
            versions or "–",
            about.source if about else "kafka",
            f"{about.records:,}" if about else "–",
            f"{sum(table_location(settings, name, number).size() for name in names) / 2**20:.1f}",
        )
    console.print(table)


@replay.command()
def drop(generation: Generation) -> None:
    """Remove a generation that is not served, and free its disk space.

    Example: lakehouse replay drop 2
    """
    from lake.catalog import keep_up

    settings = load_settings()
    with console.status("Updating the views …"):
        freed = manifest.drop(settings, manifest.replay_of(settings, generation), partial(keep_up, settings))
    console.print(f"Generation {generation} is dropped: {freed / 2**20:.1f} MiB freed.")


def _jobs(chosen: str | None) -> list[Job]:
    if not chosen:
        return list(jobs().values())
    return downstream([job_named(name.strip()) for name in chosen.split(",")])


def _capped(settings: Settings, cores: int | None) -> Settings:
    """Leave cores to the live jobs, which run at the same time."""
    spark = settings.spark.model_copy(update={"cores": cores or max(settings.spark.cores // 2, 1), "ui": False})
    return settings.model_copy(update={"spark": spark})
