"""Commands of the streaming jobs: stream run, list, status, reset."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Annotated

import typer
from pyspark.sql import SparkSession
from rich.console import Console
from rich.live import Live
from rich.table import Table

from config.kafka import end_offsets
from config.settings import Settings, load_settings
from config.spark import session
from lake import batch_log, ledger
from lake.costs import Cost, measured, record_cost
from lake.generations import TableGenerations, serving
from lake.location import warehouse
from lake.locks import holder, single_writer
from streaming.checkpoint import last_checkpoint
from streaming.checkpoint import reset as reset_checkpoint
from streaming.job import Job, job_named, jobs
from streaming.progress import Progress, Watch, commits_behind, last_progress
from streaming.runner import Runner
from streaming.windows import closing

app = typer.Typer()
stream = typer.Typer(help="The Spark jobs: run, list, status, reset.", no_args_is_help=True)
app.add_typer(stream, name="stream")
console = Console(highlight=False, soft_wrap=True)

Names = Annotated[list[str] | None, typer.Argument(metavar="[JOB]…", help="Jobs to run; all of them by default.")]


@stream.command()
def run(
    names: Names = None,
    until_caught_up: Annotated[bool, typer.Option(help="Stop when nothing is left to read.")] = False,
    allow_code_change: Annotated[
        bool, typer.Option("--allow-code-change", help="Vouch that changed code gives what the code before gave.")
    ] = False,
    close: Annotated[bool, typer.Option(help="Then close the windows and orders that are still open.")] = False,
) -> None:
    """Run jobs, showing what they do; Ctrl-C stops them cleanly, and the next run goes on there.

    Example: lakehouse stream run landing --until-caught-up
    """
    settings = load_settings()
    chosen = _chosen(names)
    for job in chosen:
        if job.topics:
            end_offsets(settings, job.topics[:1])  # a broker that is down is said before Spark has started
    with console.status("Starting Spark …"):
        spark = session(settings, "lakehouse stream")
    runner = Runner(settings, spark, allow_code_change=allow_code_change)
    last = run_watched(runner, chosen, until_caught_up=until_caught_up or close, console=console)
    for progress in last:
        console.print(f"{progress.job}: {progress.done:,} rows read, {progress.waiting:,} waiting.")
    if runner.superseded:
        console.print("Another generation is served now; `lakehouse stream run` goes on with it.")
    elif close:
        close_open(settings, spark, chosen, console)


@stream.command("list")
def list_jobs() -> None:
    """List the jobs, what they read and what they write.

    Example: lakehouse stream list
    """
    table = Table("job", "role", "version", "reads", "writes")
    for job in jobs().values():
        table.add_row(job.name, job.role, str(job.version), ", ".join(job.topics or job.reads), ", ".join(job.writes))
    console.print(table)


@stream.command()
def status() -> None:
    """Say of each job whether it runs, how far it is behind the log, and when it last finished a batch.

    Example: lakehouse stream status
    """
    settings = load_settings()
    target = serving(settings)
    table = Table("job", "running", "behind", "last batch", "finished", "rows", "state", "closed until")
    for job in jobs().values():
        status_of = _landing_status if job.topics else _follower_status
        table.add_row(*status_of(settings, job, target))
    console.print(table)
    skew = ledger.greatest_skew(settings, "landing", target.of_job(job_named("landing")))
    allowed = timedelta(minutes=settings.streaming.skew_minutes)
    if skew:
        style = None if skew.within(allowed) else "yellow"
        console.print(f"{skew}; streaming.skew_minutes allows {settings.streaming.skew_minutes} min.", style=style)
    console.print(
        "What lies after 'closed until', in event time, may still change. Time moves with events only: when they stop "
        "coming, `lakehouse stream run --close` closes what is open."
    )


@stream.command()
def reset(name: Annotated[str, typer.Argument(metavar="JOB", help="The job whose checkpoint begins anew.")]) -> None:
    """Begin a job's checkpoint anew; no row is lost or doubled.

    Landing goes on where its tables end; a job that follows tables makes its own again when it next runs.

    Example: lakehouse stream reset landing
    """
    settings = load_settings()
    job = job_named(name)
    with single_writer(settings, [job.name]):
        checkpoint = reset_checkpoint(job, settings, serving(settings).of_job(job))
    where = "after the last whole batch in the ledger" if job.topics else "from the first row of what it follows"
    console.print(f"'{name}' will go on in epoch {checkpoint.epoch}, {where}.")


def run_measured(
    runner: Runner, chosen: list[Job], *, until_caught_up: bool, console: Console
) -> tuple[list[Progress], Cost]:
    """Run jobs, showing what they do; return what each did last, and what it cost."""
    with measured(runner.spark, warehouse(runner.settings)) as cost, shown(console) as watch:
        last = runner.run(chosen, until_caught_up=until_caught_up, watch=watch)
    return last, cost


def run_watched(runner: Runner, chosen: list[Job], *, until_caught_up: bool, console: Console) -> list[Progress]:
    """Run jobs, showing what they do, and record what it cost."""
    last, cost = run_measured(runner, chosen, until_caught_up=until_caught_up, console=console)
    records = sum(each.done for each in last if job_named(each.job).topics)
    names = ", ".join(job.name for job in chosen)
    # What follows live waits for events most of the time: that tells nothing of what it could do.
    record_cost(runner.settings, "stream", names, records, cost, whole=until_caught_up)
    return last


@contextmanager
def shown(console: Console) -> Iterator[Watch]:
    """Show what jobs do in a live table on a terminal, and with a line for each batch elsewhere."""
    if not console.is_terminal:
        yield _print_batches(console)
        return
    with Live(console=console, refresh_per_second=4) as live:
        yield lambda seen: live.update(_table(seen))


def _chosen(names: list[str] | None) -> list[Job]:
    return [job_named(name) for name in names] if names else list(jobs().values())


def _table(seen: list[Progress]) -> Table:
    table = Table("job", "state", "batch", "records", "records/s", "waiting", "last batch")
    for each in seen:
        table.add_row(
            each.job,
            each.state if each.batch >= 0 else "first batch …",
            str(max(each.batch, 0)),
            f"{each.done:,}",
            f"{each.rows_per_second:,.0f}",
            f"{each.waiting:,}",
            f"{each.batch_seconds:.1f} s",
        )
    return table


def _print_batches(console: Console) -> Watch:
    printed: dict[str, int] = {}

    def watch(seen: list[Progress]) -> None:
        for each in seen:
            if each.batch != printed.get(each.job, -1):
                printed[each.job] = each.batch
                console.print(
                    f"{each.job}: batch {each.batch}, {each.done:,} records, "
                    f"{each.rows_per_second:,.0f}/s, {each.waiting:,} waiting"
                )

    return watch


def close_open(settings: Settings, spark: SparkSession, chosen: list[Job], console: Console) -> None:
    """Close what is open of the jobs, one after the other."""
    with single_writer(settings, [job.name for job in chosen]):
        for job in chosen:
            if not job.topics and (until := closing.close(job, settings, spark)):
                console.print(f"{job.name}: all before {until:%Y-%m-%d %H:%M:%S} is final.")


def _landing_status(settings: Settings, job: Job, target: TableGenerations) -> list[str]:
    generation = target.of_job(job)
    entries = [row for row in ledger.entries(settings, [job.name]) if row["generation"] == generation]
    ends = end_offsets(settings, job.topics)
    landed = ledger.landed_up_to(settings, job.name, generation)
    lag = sum(max(end - landed.get(place, 0), 0) for place, end in ends.items())
    last = entries[-1] if entries else None
    return [
        job.name,
        _running(settings, job),
        f"{lag:,} records",
        f"{last['batch']} (epoch {last['epoch']})" if last else "–",
        f"{last['recorded_at']:%Y-%m-%d %H:%M:%S}" if last else "–",
        f"{ledger.total(entries, 'input'):,}",
        "–",
        "–",
    ]


def _follower_status(settings: Settings, job: Job, target: TableGenerations) -> list[str]:
    generation = target.of_job(job)
    checkpoint = last_checkpoint(job, settings, generation)
    behind = commits_behind(job, checkpoint.followed(), settings, target)
    last = batch_log.last_batch(settings, job.name, generation)
    progress = last_progress(job.name, settings, generation)
    until = batch_log.closed_until(settings, job.name, generation)
    return [
        job.name,
        _running(settings, job),
        f"{behind:,} commits",
        f"{last['batch']} (epoch {last['epoch']})" if last else "–",
        f"{last['recorded_at']:%Y-%m-%d %H:%M:%S}" if last else "–",
        f"{progress.done:,}" if progress else "–",
        f"{progress.kept_rows:,} rows, {progress.kept_bytes / 2**20:.1f} MiB"
        if progress and progress.kept_bytes
        else "–",
        f"{until:%Y-%m-%d %H:%M:%S}" if until else "–",
    ]


def _running(settings: Settings, job: Job) -> str:
    by = holder(settings, job.name)
    return f"yes, process {by['pid']}" if by else "no"
