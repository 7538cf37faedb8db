"""The commands `quarantine list`, `show` and `redrive`."""

from collections import Counter
from datetime import UTC, datetime
from functools import reduce
from operator import and_
from typing import Annotated, Any

import pyarrow.compute as pc
import typer
from rich.table import Table

from config.settings import Settings, load_settings
from config.terminal import Terminal, plain
from expectations.ledger_snapshot import live_generation
from expectations.quarantine.plan import unfinished
from expectations.quarantine.rule_messages import rule_message
from lake.ledger import LANDING
from lake.location import table_location
from lake.locks import ensure_free
from lake.tables import ORIGIN, read_arrow

app = typer.Typer()
group = typer.Typer(help="List quarantined records and their reasons; redrive them after a fix.", no_args_is_help=True)
app.add_typer(group, name="quarantine")
console = Terminal()
EMPTY = "Quarantine is empty: no record broke a rule."


@group.command("list")
def list_() -> None:
    """Count the quarantined records by topic and rule, with the description of each rule.

    Example: lakehouse quarantine list
    """
    broken = Counter(
        (row["topic"], rule) for row in _rows(load_settings(), ["topic", "rules"]) for rule in row["rules"]
    )
    if not broken:
        console.print(EMPTY)
        return
    table = Table("topic", "rule", "records", "description")
    table.columns[2].justify = "right"
    for (topic, rule), count in sorted(broken.items(), key=lambda item: (item[0][0], -item[1], item[0][1])):
        table.add_row(topic, rule, f"{count:,}", rule_message(topic, rule))
    console.print(table)
    console.print("A record may break several rules. To see some records: lakehouse quarantine show --rule RULE")


@group.command()
def show(
    topic: Annotated[str | None, typer.Option(help="Only records of this topic.")] = None,
    rule: Annotated[str | None, typer.Option(help="Only records that broke this rule.")] = None,
    rows: Annotated[int, typer.Option(help="How many records to show at most.", min=1)] = 10,
) -> None:
    """Show quarantined records, latest first: their origin, the rules they broke, and their value.

    Example: lakehouse quarantine show --topic payments --rows 5
    """
    settings = load_settings()
    chosen = [
        row
        for row in _rows(settings, [*ORIGIN, "arrival_time", "rules"])
        if topic in (None, row["topic"]) and (rule is None or rule in row["rules"])
    ]
    if not chosen:
        console.print("No such record is in quarantine. See: lakehouse quarantine list")
        return
    chosen.sort(key=lambda row: (row["arrival_time"] or datetime.max.replace(tzinfo=UTC), *_origin(row)), reverse=True)
    values = _values(settings, chosen[:rows])
    for row in chosen[:rows]:
        origin = _origin(row)
        arrived = f"{row['arrival_time']:%Y-%m-%d %H:%M:%S}" if row["arrival_time"] else "at an unknown time"
        console.print(f"{'/'.join(map(str, origin))}, arrived {arrived}", style="bold")
        for name in row["rules"]:
            console.print(f"  {name}: {rule_message(row['topic'], name)}")
        console.print(f"  {_readable(values.get(origin))}")
    if len(chosen) > rows:
        console.print(f"… and {len(chosen) - rows:,} more; --rows shows more.")


@group.command()
def redrive() -> None:
    """Let quarantined records go through landing again, by the rules as they are now; what still breaks one stays.

    Each goes where landing would put it, once; `check ledger` follows it there. Stop landing first.

    Example: lakehouse quarantine redrive
    """
    settings = load_settings()
    generation = live_generation(settings)
    if not unfinished(settings, generation) and not _rows(settings, ["topic"]):
        console.print(EMPTY)
        return
    ensure_free(settings, [LANDING])
    from config.spark import session
    from expectations.quarantine.redrive import redrive as drive

    with console.status("Validating again …"):
        result = drive(session(settings, "lakehouse quarantine redrive"), settings, generation)
    for moved_to, count in sorted(result.moved.items()):
        console.print(f"{count:,} → {'silver' if moved_to == 'silver' else f'silver.{moved_to}'}")
    if not result.moved:
        console.print("Nothing has changed: every record still breaks a rule.")
    console.print(f"{result.refused:,} records stay in quarantine. See: lakehouse quarantine list")


def _rows(settings: Settings, columns: list[str]) -> list[dict[str, Any]]:
    path = table_location(settings, "silver.quarantine", live_generation(settings))
    return list(read_arrow(path, None, columns).to_pylist())


def _origin(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ORIGIN)


def _values(settings: Settings, rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], bytes | None]:
    """Read the values of these records from the archive, and of no others: all may not fit in memory."""
    which = pc.scalar(False)
    for row in rows:
        day = pc.field("arrival_date") == row["arrival_time"].date()
        which = which | reduce(and_, (pc.field(name) == row[name] for name in ORIGIN), day)
    archived = read_arrow(table_location(settings, "bronze.events"), which, [*ORIGIN, "value"]).to_pylist()
    return {_origin(row): row["value"] for row in archived}


def _readable(value: bytes | None) -> str:
    return "(no value)" if value is None else plain(value)
