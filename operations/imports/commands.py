"""The command `import`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from config.errors import LakehouseError
from config.kafka import ensure_topics, let_producers_stamp
from config.settings import load_settings
from config.terminal import Terminal
from expectations.quarantine.rule_messages import rule_message
from operations.imports.check import Check, check
from operations.imports.mapping import load_mapping
from operations.imports.position import import_id, read_position, write_position

app = typer.Typer()
console = Terminal()
EXAMPLE_LENGTH = 300
_FILE = {"exists": True, "dir_okay": False, "readable": True}


@app.command("import")
def import_(
    files: Annotated[list[Path], typer.Argument(help="CSV, Parquet or JSON lines.", **_FILE)],
    topic: Annotated[str, typer.Option(help="The topic to write to.")],
    mapping: Annotated[Path, typer.Option(help="YAML: field of the topic -> column of the files.", **_FILE)],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Send nothing; show what landing would refuse.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted import of these files.")] = False,
) -> None:
    """Import your own history from files into a topic, in event-time order, as if each event had arrived on time.

    Example: lakehouse import clicks.csv --topic clicks --mapping clicks.yaml --dry-run
    """
    declared, settings = load_mapping(mapping, topic), load_settings()
    id_ = import_id(topic, mapping, files)
    position = None if dry_run else read_position(settings, id_)
    if position and position.finished:
        console.print(f"Nothing to do: {topic} has all {position.records:,} records of these files.")
        return
    if position and not resume:
        raise LakehouseError(
            f"An import of these files was interrupted after {position.sent:,} of {position.records:,} records.",
            "To continue it, run the same command with --resume.",
        )
    if not dry_run:
        ensure_topics(settings)  # before Spark starts: without a broker this fails at once
        if not settings.kafka.servers:
            let_producers_stamp(settings)  # event times become arrival times
    from config.spark import session
    from operations.imports.convert import records
    from operations.imports.send import check_topic, send, start

    frame = records(session(settings, "lakehouse import"), files, declared)
    if dry_run:
        with console.status("Validating as landing does …"):
            found = check(frame, topic)
        _show(topic, found)
        return
    if position is None:
        with console.status("Reading the files …"):
            position = start(frame)
        check_topic(settings, topic, position.earliest_ms)
        write_position(settings, id_, position)
    with _progress() as progress:
        task = progress.add_task("Sending", total=position.records, completed=position.sent)
        send(settings, topic, frame, id_, position, lambda number: progress.update(task, advance=number))
    console.print(f"{topic} has all {position.records:,} records. Next: lakehouse stream run --until-caught-up")


def _show(topic: str, found: Check) -> None:
    console.print(
        f"{found.records:,} records would be sent to {topic}; landing would refuse {found.refused:,}. "
        f"{found.repeated:,} repeat an event id: landing keeps the first."
    )
    if not found.refusals:
        return
    table = Table("rule", "records", "description")
    table.columns[1].justify = "right"
    for refusal in found.refusals:
        table.add_row(refusal.rule, f"{refusal.records:,}", rule_message(topic, refusal.rule))
    console.print(table)
    for refusal in found.refusals:
        for example in refusal.examples:
            console.print(f"{refusal.rule}: {example[:EXAMPLE_LENGTH]}")


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("records"),
        TimeElapsedColumn(),
        console=console,
    )
