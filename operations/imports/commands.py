"""The commands `import` and `import-home`."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from config.errors import LakehouseError
from config.kafka import ensure_topics, let_producers_stamp
from config.settings import load_settings
from config.terminal import Terminal
from expectations.quarantine.rule_messages import rule_message
from lake.ledger import LANDING
from lake.locks import single_writer
from operations.imports.check import Check, check
from operations.imports.mapping import load_mapping
from operations.imports.position import Position, import_id, read_position, write_position

if TYPE_CHECKING:
    from operations.imports.home import OldHome

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
        raise _interrupted(position, "these files")
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


@app.command("import-home")
def import_home(
    old_home: Annotated[Path, typer.Argument(help="The old home.", exists=True, file_okay=False)],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Send nothing; show what the archive has.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted import of this home.")] = False,
) -> None:
    """Continue after a lost log: send the archive of an old home to the empty log of this one, arrival times included.

    Landing cannot run meanwhile. The old home is only read.

    Example: lakehouse import-home .lakehouse-old --dry-run
    """
    from operations.imports.home import OldHome, check_new_log, ensure_nothing_landed, send_home

    settings = load_settings()
    old = OldHome(settings, old_home)
    if dry_run:
        _show_home(old)
        return
    # Landing's lock: what is landed before all topics are complete would be closed too early.
    with single_writer(settings, [LANDING]):
        position = read_position(settings, old.id)
        if position and position.finished:
            console.print(f"Nothing to do: this log has all {position.records:,} records of {old_home}.")
            return
        if position and not resume:
            raise _interrupted(position, str(old_home))
        ensure_nothing_landed(settings)
        ensure_topics(settings)
        if position is None:
            if not settings.kafka.servers:
                let_producers_stamp(settings)
            check_new_log(settings, old)
            position = old.position
            write_position(settings, old.id, position)
        with _progress() as progress:
            task = progress.add_task("Sending", total=position.records, completed=position.sent)
            send_home(settings, old, position, lambda number: progress.update(task, advance=number))
    console.print(f"This log has all {position.records:,} records. Next: lakehouse stream run --until-caught-up")


def _interrupted(position: Position, what: str) -> LakehouseError:
    return LakehouseError(
        f"An import of {what} was interrupted after {position.sent:,} of {position.records:,} records.",
        "To continue it, run the same command with --resume.",
    )


def _show_home(old: "OldHome") -> None:
    table = Table("topic", "records", "first arrival", "last arrival", "without arrival time")
    for column in (1, 4):
        table.columns[column].justify = "right"
    for topic in sorted({part.topic for part in old.partitions}):
        parts = [part for part in old.partitions if part.topic == topic]
        first = min((part.earliest_ms for part in parts if part.earliest_ms is not None), default=None)
        last = max((part.latest_ms for part in parts if part.latest_ms is not None), default=None)
        unknown = sum(part.without_arrival for part in parts)
        records = sum(part.records for part in parts)
        table.add_row(topic, f"{records:,}", _time(first), _time(last), f"{unknown:,}")
    console.print(table)
    console.print(f"{old.position.records:,} records would be sent.")


def _time(milliseconds: int | None) -> str:
    return "" if milliseconds is None else f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S}"


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
