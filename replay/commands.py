"""Commands of replay: plan, run, verify, promote, rollback, list, drop."""

import os
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from config.errors import LakehouseError
from config.settings import Settings, load_settings
from replay import manifest
from replay.plan import EARLIEST, ReplayPlan
from replay.plan import plan as make_plan
from streaming.job import Job, downstream, job_named, jobs

app = typer.Typer()
replay = typer.Typer(help="Kappa: history made anew, proved, then served.", no_args_is_help=True)
app.add_typer(replay, name="replay")
console = Console(highlight=False, soft_wrap=True)
NICENESS = 15
"""How far a replay stands back: of the processor it gets what the live jobs leave."""

Since = Annotated[
    str, typer.Option("--from", help='earliest, a time of arrival, or offsets: \'{"clicks": {"0": 100}}\'.')
]
From = Annotated[Literal["kafka", "bronze"], typer.Option("--source", help="The log itself, or its archive.")]
Chosen = Annotated[
    str | None, typer.Option("--jobs", help="Only these jobs, separated by commas, and what depends on them.")
]
Generation = Annotated[int, typer.Argument(help="The generation, as `lakehouse replay list` names it.")]


@replay.command()
def plan(source: From = "kafka", since: Since = EARLIEST, chosen: Chosen = None) -> None:
    """Say what a replay would read, how long it takes and what stands against it; exit code 1 if something does.

    Example: lakehouse replay plan --jobs views_per_minute
    """
    settings = load_settings()
    planned = make_plan(settings, _jobs(chosen), source, since)
    _show(planned)
    raise typer.Exit(1 if planned.blockers else 0)


@replay.command()
def run(
    source: From = "kafka",
    since: Since = EARLIEST,
    chosen: Chosen = None,
    resume: Annotated[int | None, typer.Option(help="Go on with a replay that was broken off.")] = None,
    cores: Annotated[int | None, typer.Option(min=1, help="Cores to take; half of those configured.")] = None,
) -> None:
    """Build a new generation of silver and gold by the same jobs; what is served is not touched.

    Example: lakehouse replay run --source bronze
    """
    from config.spark import session
    from replay.run import run as run_replay
    from streaming.commands import shown

    settings = _capped(load_settings(), cores)
    if resume is not None:
        todo = manifest.interrupted(settings, resume)
    else:
        planned = make_plan(settings, _jobs(chosen), source, since)
        _show(planned)
        if planned.blockers:
            raise LakehouseError(*planned.blockers[0])
        todo = planned.replay
    os.nice(NICENESS)  # before Spark starts, which inherits it
    with console.status("Starting Spark …"):
        spark = session(settings, f"lakehouse replay g{todo.generation}")
    with shown(console) as watch:
        built = run_replay(spark, settings, todo, watch)
    rate = f", {built.records / built.seconds:,.0f} records/s" if built.records and built.seconds else ""
    console.print(
        f"Generation {built.generation} is built, in {built.seconds:.0f} s{rate}. "
        f"Next: lakehouse replay verify {built.generation}"
    )


@replay.command()
def verify(generation: Generation) -> None:
    """Compare a generation with what is served and with the batch layer, row by row; write its certificate.

    Exit code 1 when a row differs without a reason.

    Example: lakehouse replay verify 2
    """
    from config.spark import session
    from replay.certificate import verify as certify

    settings = load_settings()
    todo = manifest.replay_of(settings, generation)
    if todo.state == "running":
        raise LakehouseError(f"Replay {generation} is not finished.", f"lakehouse replay run --resume {generation}")
    with console.status("Starting Spark …") as status:
        spark = session(settings, "lakehouse replay verify")
        certificate = certify(spark, settings, todo, lambda what: status.update(f"Comparing {what} …"))
    manifest.save(settings, replace(todo, state="verified"))
    for what, tables in certificate.values["against"].items():
        table = Table("table", "equal", "differing", "reasons", title=f"Generation {generation} against {what}")
        for name, each in tables.items():
            reasons = ", ".join(f"{reason}: {rows:,}" for reason, rows in each["by_reason"].items())
            table.add_row(name, f"{each['equal']:,}", f"{sum(each['by_reason'].values()):,}", reasons or "–")
        console.print(table)
    console.print(f"The certificate: {manifest.folder(settings, generation) / 'certificate.html'}")
    if certificate.unexplained:
        console.print(f"✗ {certificate.unexplained:,} rows differ without a reason.", style="red")
        raise typer.Exit(1)
    console.print(f"✓ Nothing is unexplained. To serve it: lakehouse replay promote {generation}", style="green")


@replay.command()
def promote(
    generation: Generation,
    accept: Annotated[str | None, typer.Option(help="Serve it though rows have no reason; say why.")] = None,
) -> None:
    """Serve a proved generation: one commit switches every table for every reader.

    Example: lakehouse replay promote 2
    """
    from config.spark import session
    from lake.catalog import keep_up
    from replay.promotion import promote as switch

    settings = load_settings()
    todo = manifest.replay_of(settings, generation)
    with console.status("Checking its quality …"):
        spark = session(settings, "lakehouse replay promote")
        audit = switch(spark, settings, todo, accept, partial(keep_up, settings))
    audit.show(console)
    if not audit.passed:
        console.print("✗ Not promoted: what was served goes on being served.", style="red")
        raise typer.Exit(1)
    console.print(f"✓ Generation {generation} is served.", style="green")
    console.print("A running `lakehouse stream run` stops by itself; started again, it goes on with this generation.")


@replay.command()
def rollback() -> None:
    """Serve again what was served before the last switch.

    Example: lakehouse replay rollback
    """
    from replay.promotion import rollback as switch_back

    settings = load_settings()
    changed = switch_back(settings)
    for number in sorted(set(changed.values())):
        names = ", ".join(sorted(name for name, each in changed.items() if each == number))
        console.print(f"Generation {number} is served again: {names}.")
    console.print("How far it is behind: lakehouse stream status. To catch up: lakehouse stream run")


@replay.command("list")
def list_generations() -> None:
    """List the generations, what they were built from, how large they are, and which is served.

    Example: lakehouse replay list
    """
    from config.declarations import table_named
    from lake import generations
    from lake.costs import size_of

    settings = load_settings()
    served = generations.live(settings)
    table = Table("generation", "state", "tables", "versions above 1", "source", "records", "MiB")
    every = {number for each in generations.replayable_tables() for number in generations.built(settings, each)}
    known = {each.generation: each for each in manifest.replays(settings) if each.state != "dropped"}
    for number in sorted(every | known.keys()):  # one that was killed early has no table yet
        names = [each.name for each in generations.replayable_tables() if number in generations.built(settings, each)]
        mine = [name for name in names if served[name] == number]
        size = sum(size_of(table_named(name).path(settings.warehouse, number)) for name in names)
        about = known.get(number)
        state = f"[green]served ({len(mine)} tables)[/]" if mine else about.state if about else "superseded"
        versions = ", ".join(f"{n} v{v}" for n, v in about.versions.items() if v > 1) if about else ""
        table.add_row(
            str(number),
            state,
            str(len(names)),
            versions or "–",
            about.source if about else "kafka",
            f"{about.records:,}" if about else "–",
            f"{size / 2**20:.1f}",
        )
    console.print(table)


@replay.command()
def drop(generation: Generation) -> None:
    """Remove a generation that is not served, and free its disk.

    Example: lakehouse replay drop 2
    """
    from lake.catalog import keep_up

    settings = load_settings()
    with console.status("Making sure that no view reads it …"):
        freed = manifest.drop(settings, manifest.replay_of(settings, generation), partial(keep_up, settings))
    console.print(f"Generation {generation} is dropped: {freed / 2**20:.1f} MiB are free.")


def _jobs(chosen: str | None) -> list[Job]:
    if not chosen:
        return list(jobs().values())
    return downstream([job_named(name.strip()) for name in chosen.split(",")])


def _capped(settings: Settings, cores: int | None) -> Settings:
    """Leave cores to the live jobs: a replay runs beside them."""
    spark = settings.spark.model_copy(update={"cores": cores or max(settings.spark.cores // 2, 1), "ui": False})
    return settings.model_copy(update={"spark": spark})


def _show(planned: ReplayPlan) -> None:
    replay = planned.replay
    console.print(f"Generation {replay.generation}, from {replay.source}: {', '.join(replay.tables)}")
    if planned.ranges:
        table = Table("partition", "from", "to", "records")
        for (topic, partition), (low, high) in sorted(planned.ranges.items()):
            table.add_row(f"{topic}/{partition}", f"{low:,}", f"{high:,}", f"{high - low:,}")
        console.print(table)
    if planned.span:
        first, last = planned.span
        console.print(
            f"{planned.records:,} records, {planned.bytes / 2**20:.1f} MiB, events from {first:%Y-%m-%d %H:%M} to "
            f"{last:%Y-%m-%d %H:%M}."
        )
    took = f"about {planned.seconds:.0f} s at the rate of landing" if planned.seconds else "unknown: nothing was landed"
    console.print(
        f"Time: {took}. Disk: about {planned.disk_needed / 2**20:.1f} MiB of {planned.disk_free / 2**30:.1f} GiB free."
    )
    for why, hint in planned.blockers:
        console.print(f"✗ {why}", style="red")
        console.print(hint)
