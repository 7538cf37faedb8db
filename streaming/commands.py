"""Commands of the streaming jobs: stream run, list, status; those that repair a job are in repair_commands."""

from datetime import timedelta
from functools import partial
from typing import Annotated

import typer
from pyspark.sql import SparkSession
from rich.table import Table

from config.kafka import end_offsets
from config.settings import Settings, load_settings
from config.spark import session
from config.terminal import Terminal
from lake import batch_log, ledger, losses
from lake.costs import Cost, measured, record_cost
from lake.generations import TableGenerations, serving
from lake.location import warehouse
from lake.locks import ensure_free, holder, single_writer
from streaming import repair_commands
from streaming.checkpoint import last_checkpoint
from streaming.dropped_rows import dropped_rows
from streaming.job import Job, job_named, jobs
from streaming.progress import Progress, commits_behind, last_progress
from streaming.progress_display import print_failure, shown
from streaming.runner import Runner
from streaming.windows import closing

app = typer.Typer()
stream = typer.Typer(help="The Spark jobs: run, list, status, reset.", no_args_is_help=True)
app.add_typer(stream, name="stream")
for command in (repair_commands.reset, repair_commands.bisect, repair_commands.set_aside):
    stream.command()(command)
console = Terminal()

Names = Annotated[list[str] | None, typer.Argument(metavar="[JOB]…", help="Jobs to run; all of them by default.")]


@stream.command()
def run(
    names: Names = None,
    until_caught_up: Annotated[bool, typer.Option(help="Stop when nothing is left to read.")] = False,
    allow_code_change: Annotated[
        bool, typer.Option("--allow-code-change", help="Assert that the changed code gives the same results.")
    ] = False,
    retry: Annotated[bool, typer.Option(help="Try a batch again that has failed too often.")] = False,
    close: Annotated[bool, typer.Option(help="Then finalize the windows and orders that are still open.")] = False,
) -> None:
    """Run jobs and show their progress; Ctrl-C stops them cleanly, and the next run continues from there.

    Example: lakehouse stream run landing --until-caught-up
    """
    settings = load_settings()
    chosen = _chosen(names)
    ensure_free(settings, [job.name for job in chosen])
    for job in chosen:
        if job.topics:
            end_offsets(settings, job.topics[:1])  # report a broker that is down before Spark starts
    with console.status("Starting Spark …"):
        spark = session(settings, "lakehouse stream")
    runner = Runner(settings, spark, allow_code_change=allow_code_change, retry=retry)
    last = run_watched(runner, chosen, until_caught_up=until_caught_up or close, console=console)
    for progress in last:
        console.print(f"{progress.job}: {progress.done:,} rows read, {progress.waiting:,} waiting.")
    if runner.superseded:
        console.print("Another generation is served now; `lakehouse stream run` continues with it.")
    elif close:
        close_open(settings, spark, chosen, console)


@stream.command("list")
def list_jobs() -> None:
    """List the jobs with their inputs and outputs.

    Example: lakehouse stream list
    """
    table = Table("job", "role", "version", "reads", "writes")
    for job in jobs().values():
        table.add_row(job.name, job.role, str(job.version), ", ".join(job.topics or job.reads), ", ".join(job.writes))
    console.print(table)


@stream.command()
def status() -> None:
    """Show for each job whether it runs, how far it is behind, and when it last finished a batch.

    Example: lakehouse stream status
    """
    settings = load_settings()
    target = serving(settings)
    table = Table("job", "running", "behind", "last batch", "finished", "rows", "state", "closed until")
    for job in jobs().values():
        status_of = _landing_status if job.topics else _table_job_status
        table.add_row(*status_of(settings, job, target))
    console.print(table)
    show_dropped_rows(settings, target, console)
    skew = ledger.greatest_skew(settings, "landing", target.of_job(job_named("landing")))
    allowed = timedelta(minutes=settings.streaming.skew_minutes)
    if skew:
        style = None if skew.within(allowed) else "yellow"
        console.print(f"{skew}; streaming.skew_minutes allows {settings.streaming.skew_minutes} min.", style=style)
    console.print(
        "Rows after 'closed until', in event time, may still change. Event time moves only with events: when they stop "
        "arriving, `lakehouse stream run --close` finalizes the open rows."
    )


def run_measured(
    runner: Runner, chosen: list[Job], *, until_caught_up: bool, console: Terminal
) -> tuple[list[Progress], Cost]:
    """Run jobs and show their progress; return the last progress of each, and the cost."""
    with measured(runner.spark, warehouse(runner.settings)) as cost, shown(console) as on_progress:
        # A live run goes on without a job that failed, so its error is printed at once.
        on_failure = None if until_caught_up else partial(print_failure, console)
        last = runner.run(chosen, until_caught_up=until_caught_up, on_progress=on_progress, on_failure=on_failure)
    return last, cost


def run_watched(runner: Runner, chosen: list[Job], *, until_caught_up: bool, console: Terminal) -> list[Progress]:
    """Run jobs, show their progress, and record the cost."""
    last, cost = run_measured(runner, chosen, until_caught_up=until_caught_up, console=console)
    records = sum(each.done for each in last if job_named(each.job).topics)
    names = ", ".join(job.name for job in chosen)
    # A live run waits for events most of the time: its throughput does not show what the jobs can do.
    record_cost(runner.settings, "stream", names, records, cost, whole=until_caught_up)
    return last


def _chosen(names: list[str] | None) -> list[Job]:
    return [job_named(name) for name in names] if names else list(jobs().values())


def close_open(settings: Settings, spark: SparkSession, chosen: list[Job], console: Terminal) -> None:
    """Finalize the open rows of the jobs, one job after the other."""
    with single_writer(settings, [job.name for job in chosen]):
        for job in chosen:
            if not job.topics and (closed_until := closing.close(job, settings, spark)):
                console.print(f"{job.name}: all rows before {closed_until:%Y-%m-%d %H:%M:%S} are final.")


def show_dropped_rows(settings: Settings, target: TableGenerations, console: Terminal) -> None:
    """Print each job that refuses to start because Spark has dropped rows of it."""
    for job in jobs().values():
        if error := dropped_rows(job, settings, target):
            console.print(f"✗ {error.problem}", style="red")
            console.print(error.hint)


def _landing_status(settings: Settings, job: Job, target: TableGenerations) -> list[str]:
    generation = target.of_job(job)
    entries = [row for row in ledger.entries(settings, [job.name]) if row["generation"] == generation]
    ends = end_offsets(settings, job.topics)
    landed = losses.accounted_up_to(settings, job.name, generation)
    lag = sum(max(end - landed.get(partition, 0), 0) for partition, end in ends.items())
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


def _table_job_status(settings: Settings, job: Job, target: TableGenerations) -> list[str]:
    generation = target.of_job(job)
    checkpoint = last_checkpoint(job, settings, generation)
    behind = commits_behind(job, checkpoint.table_offsets(), settings, target)
    last = batch_log.last_batch(settings, job.name, generation)
    progress = last_progress(job.name, settings, generation)
    closed_until = batch_log.closed_until(settings, job.name, generation)
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
        f"{closed_until:%Y-%m-%d %H:%M:%S}" if closed_until else "–",
    ]


def _running(settings: Settings, job: Job) -> str:
    process = holder(settings, job.name)
    return f"yes, process {process['pid']}" if process else "no"
