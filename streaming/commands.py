"""Commands of the streaming jobs: stream run, list, status, reset."""

from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from config.kafka import end_offsets
from config.settings import Settings, load_settings
from config.spark import session
from streaming import ledger
from streaming.checkpoint import reset as reset_checkpoint
from streaming.job import Job, job_named, jobs
from streaming.lock import holder, writing
from streaming.progress import Progress, Watch
from streaming.runner import GENERATION, Runner

app = typer.Typer()
stream = typer.Typer(help="The Spark jobs: run, list, status, reset.", no_args_is_help=True)
app.add_typer(stream, name="stream")
console = Console(highlight=False, soft_wrap=True)

Names = Annotated[list[str] | None, typer.Argument(metavar="[JOB]…", help="Jobs to run; all of them by default.")]


@stream.command()
def run(
    names: Names = None,
    until_caught_up: Annotated[bool, typer.Option(help="Stop when nothing is left to read.")] = False,
) -> None:
    """Run jobs, showing what they do; Ctrl-C stops them cleanly, and the next run goes on there.

    Example: lakehouse stream run landing --until-caught-up
    """
    settings = load_settings()
    chosen = _chosen(names)
    for job in chosen:
        end_offsets(settings, job.topics[:1])  # a broker that is down is said before Spark has started
    with console.status("Starting Spark …"):
        spark = session(settings, "lakehouse stream")
    last = run_watched(Runner(settings, spark), chosen, until_caught_up=until_caught_up, console=console)
    for progress in last:
        console.print(f"{progress.job}: {progress.done:,} records landed, {progress.waiting:,} waiting.")


@stream.command("list")
def list_jobs() -> None:
    """List the jobs, what they read and what they write.

    Example: lakehouse stream list
    """
    table = Table("job", "role", "version", "reads", "writes")
    for job in jobs().values():
        table.add_row(job.name, job.role, str(job.version), ", ".join(job.topics), ", ".join(job.writes))
    console.print(table)


@stream.command()
def status() -> None:
    """Say of each job whether it runs, how far it is behind the log, and when it last finished a batch.

    Example: lakehouse stream status
    """
    settings = load_settings()
    table = Table("job", "running", "lag (records)", "last batch", "finished", "records landed")
    for job in jobs().values():
        table.add_row(*_status(settings, job))
    console.print(table)


@stream.command()
def reset(name: Annotated[str, typer.Argument(metavar="JOB", help="The job whose checkpoint begins anew.")]) -> None:
    """Begin a job's checkpoint anew where its tables end; no row is lost or doubled.

    Example: lakehouse stream reset landing
    """
    settings = load_settings()
    job = job_named(name)
    with writing(settings, [job.name]):
        checkpoint = reset_checkpoint(job, settings, GENERATION)
    console.print(f"'{name}' will go on in epoch {checkpoint.epoch}, after the last whole batch in the ledger.")


def run_watched(runner: Runner, chosen: list[Job], *, until_caught_up: bool, console: Console) -> list[Progress]:
    """Run jobs with a live table on a terminal, and with a line for each batch elsewhere."""
    if not console.is_terminal:
        return runner.run(chosen, until_caught_up=until_caught_up, watch=_print_batches(console))
    with Live(console=console, refresh_per_second=4) as live:
        return runner.run(chosen, until_caught_up=until_caught_up, watch=lambda seen: live.update(_table(seen)))


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


def _status(settings: Settings, job: Job) -> list[str]:
    entries = [row for row in ledger.entries(settings, [job.name]) if row["generation"] == GENERATION]
    ends = end_offsets(settings, job.topics)
    landed = ledger.landed_up_to(settings, job.name, GENERATION)
    lag = sum(max(end - landed.get(place, 0), 0) for place, end in ends.items())
    by = holder(settings, job.name)
    last = entries[-1] if entries else None
    return [
        job.name,
        f"yes, process {by['pid']}" if by else "no",
        f"{lag:,}",
        f"{last['batch']} (epoch {last['epoch']})" if last else "–",
        f"{last['recorded_at']:%Y-%m-%d %H:%M:%S}" if last else "–",
        f"{ledger.total(entries, 'input'):,}",
    ]
