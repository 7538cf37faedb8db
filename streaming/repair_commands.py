"""Commands that repair a job: stream reset, bisect, set-aside."""

from itertools import islice
from typing import Annotated

import typer

from config.errors import LakehouseError
from config.settings import Settings, load_settings
from config.spark import session
from config.terminal import Terminal
from lake import ledger
from lake.generations import serving
from lake.locks import ensure_free, single_writer
from streaming import poison
from streaming import set_aside as aside
from streaming.batch_inputs import range_words
from streaming.checkpoint import last_checkpoint
from streaming.checkpoint import reset as reset_checkpoint
from streaming.job import Job, job_named
from streaming.poison import Poison
from streaming.progress_display import shown
from streaming.rebuild import LOCK, rebuild
from streaming.tries import forget_failures

LANDING = "landing"
console = Terminal()
JobName = Annotated[str, typer.Argument(metavar="JOB")]


def reset(
    name: JobName,
    accept_loss: Annotated[
        str | None,
        typer.Option(metavar="REASON", help="Go on after records that Kafka deleted before they were landed."),
    ] = None,
) -> None:
    """Start a job over, without losing or doubling a row and without emptying a served table.

    Landing continues where its tables end. A job that reads tables is rebuilt, with every job downstream of it, next to
    the served tables; one commit then switches to what was built. If Kafka deleted records before they were landed,
    --accept-loss records them in the ledger as lost, and landing goes on after them.

    Example: lakehouse stream reset landing
    """
    settings = load_settings()
    job = job_named(name)
    if not job.topics:
        if accept_loss is not None:
            raise LakehouseError(f"'{name}' reads tables: only landing can lose records of Kafka.")
        _rebuild(settings, job)
        return
    with single_writer(settings, [job.name]):
        checkpoint = reset_checkpoint(job, settings, serving(settings).of_job(job), accept_loss=accept_loss)
    console.print(f"'{name}' will continue in epoch {checkpoint.epoch}, after the last complete batch in the ledger.")
    if accept_loss:
        console.print("The loss and its reason are in ops.ledger; `lakehouse check ledger` lists them.")


def _rebuild(settings: Settings, job: Job) -> None:
    ensure_free(settings, [LOCK])
    with console.status("Starting Spark …"):
        spark = session(settings, "lakehouse stream reset")
    with shown(console) as on_progress:
        tables = rebuild(spark, settings, job, on_progress)
    generation = serving(settings).of_job(job)
    console.print(f"Generation {generation} is served: {', '.join(tables)}.")
    console.print("A running `lakehouse stream run` stops by itself; the next one continues with this generation.")


def bisect(name: JobName) -> None:
    """Find the records that break a job's unfinished batch, by halving it; nothing is written.

    Exit code 1 if there are any.

    Example: lakehouse stream bisect landing
    """
    settings = load_settings()
    job, target = job_named(name), serving(settings)
    checkpoint = last_checkpoint(job, settings, target.of_job(job))
    batch = checkpoint.unfinished()
    if batch is None:
        console.print(f"'{name}' has no unfinished batch: there is nothing to search.")
        return
    ensure_free(settings, [job.name])
    with console.status("Starting Spark …") as status:
        spark = session(settings, "lakehouse stream bisect")
        status.update(f"Searching batch {batch} …")
        with single_writer(settings, [job.name]):
            found = list(islice(poison.find(job, checkpoint, batch, settings, target, spark), poison.MOST))
    for each in found:
        console.print(", ".join(range_words(*partition) for partition in each.ranges.items()), style="bold")
        console.print(f"  {each.error}")
    if not found:
        console.print("Every record passes, alone and together: the failure had a different cause.")
        console.print(f"Try it again: lakehouse stream run {name} --retry")
        return
    console.print(_way_out(job, found))
    raise typer.Exit(1)


def _way_out(job: Job, found: list[Poison]) -> str:
    if not job.topics:
        return f"Fix the code of '{job.name}', then: lakehouse stream run {job.name} --retry --allow-code-change"
    origins = (f"{topic}/{part}/{first}" for each in found for (topic, part), (first, _) in each.ranges.items())
    return (
        "Fix the code, or set them aside until it is fixed: "
        f'lakehouse stream set-aside {" ".join(origins)} --reason "REASON"'
    )


def set_aside(
    records: Annotated[list[str], typer.Argument(metavar="TOPIC/PARTITION/OFFSET…")],
    reason: Annotated[str, typer.Option(help="Why; it is recorded.")],
) -> None:
    """Let landing quarantine records that break it, without reading their values; a redrive lands them after a fix.

    A record that has landed cannot be set aside. If it is in silver it is valid, and breaks a job that reads tables:
    fix the code of that job, then `lakehouse stream run JOB --retry --allow-code-change`.

    Example: lakehouse stream set-aside clicks/0/1234 --reason "overflow in parse, fix in review"
    """
    settings = load_settings()
    job = job_named(LANDING)
    origins = [_origin(record, job) for record in records]
    with single_writer(settings, [job.name]):
        generation = serving(settings).of_job(job)
        ends = ledger.landed_up_to(settings, job.name, generation)
        for topic, partition, offset in origins:
            if offset < ends.get((topic, partition), 0):
                raise LakehouseError(
                    f"{topic}/{partition}/{offset} has landed already; only records that have not can be set aside.",
                    f"See where it is: lakehouse trace {topic}/{partition}/{offset}",
                )
        aside.set_aside(settings, origins, reason)
        forget_failures(last_checkpoint(job, settings, generation))
    console.print(f"{len(origins)} set aside: landing will quarantine them by the rule '{aside.RULE}'.")
    console.print("Continue: lakehouse stream run. After a fix: lakehouse quarantine redrive")


def _origin(record: str, job: Job) -> aside.Origin:
    topic, *numbers = record.split("/")
    if topic not in job.topics or len(numbers) != 2 or not all(part.isdecimal() for part in numbers):
        raise LakehouseError(
            f"'{record}' is not a record that landing reads.", "Name it like clicks/0/1234: topic, partition, offset."
        )
    return topic, int(numbers[0]), int(numbers[1])
