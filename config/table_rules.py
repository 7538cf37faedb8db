"""Table rules: each is a query for the rows that break it; a rule holds if its query returns none.

Two are derived from the declarations: the key is unique, and landing's tables have the row counts of the ledger.
The others come from the rule files, which also contain the row rules: references, freshness, bounds, gaps. A rule that
one aggregation over the table can decide declares what to aggregate (`parts`); its query then only shows the rows.
"""

import re
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path

from config.declarations import Table, tables
from config.rule_expressions import asking, columns_in
from config.rule_files import FOLDER, Entry, entries

BATCH = "{batch}"  # whoever runs a query inserts the table's name here, as Great Expectations does
LEDGER = "ledger"
NOW = "now"
_BOUNDS = re.compile(r"(-?\d+(?:\.\d+)?) and (-?\d+(?:\.\d+)?)")
_DURATION = re.compile(r"(\d+) (second|minute|hour|day)s?")


@dataclass(frozen=True)
class Key:
    """The parts of a uniqueness rule: SQL expressions that identify a row together."""

    expressions: tuple[str, ...]
    columns: tuple[str, ...]
    """The same as columns, if every expression is one."""


@dataclass(frozen=True)
class Bounds:
    """The parts of a bounds rule: a SQL aggregate, and the least and the greatest value that it may have."""

    measure: str
    low: str
    high: str


@dataclass(frozen=True)
class Freshness:
    """The parts of a freshness rule: a column, the column that it follows (None: the clock), and by how much."""

    newest: str
    behind: str | None
    at_most: timedelta


@dataclass(frozen=True)
class TableRule:
    """A condition on a whole table."""

    name: str
    table: str
    severity: str
    description: str
    query: str
    """SQL over {batch} and the view of `needs`; it returns the rows that break the rule."""

    needs: str | None = None
    """Another table, or the ledger, that the query reads."""

    parts: Key | Bounds | Freshness | None = None
    """What an aggregation computes to decide the rule; None: only its query can."""

    @property
    def look(self) -> str:
        """Return the command that shows all rows of the served tables that break the rule."""
        if self.needs == LEDGER:
            return "lakehouse check ledger"
        query = self.query.replace(BATCH, self.table).replace("{{", "{").replace("}}", "}")
        return asking(query.replace(view(self.needs), self.needs) if self.needs else query)


def view(name: str) -> str:
    """Return the name of the view through which the rules' queries read a table."""
    return f"audited_{name.replace('.', '_')}"


@cache
def table_rules(name: str, folder: Path = FOLDER) -> tuple[TableRule, ...]:
    """Return all table rules of a table: those derived from its declaration, then those of its file."""
    table = tables()[name]
    written = [_WRITTEN[entry.form](entry, table) for entry in entries(folder / f"{name}.yaml") if entry.form != "row"]
    return (_unique(table), *_as_the_ledger_says(table), *written)


def _unique(table: Table) -> TableRule:
    """Find keys with several rows; an event is identified by its id and the hour of its event time (decision 0005)."""
    hour = "date_trunc('hour', event_time)"
    expressions = tuple(hour if column == "event_time" else column for column in table.key)
    key = ", ".join(expressions)
    told = ", ".join("hour of event_time" if column == "event_time" else column for column in table.key)
    return TableRule(
        name="key_unique",
        table=table.name,
        severity="fail",
        description=f"There is one row per {told}.",
        query=f"select {key.replace(hour, f'{hour} as hour')}, count(*) as copies from {BATCH} "  # noqa: S608
        f"group by {key} having count(*) > 1",
        parts=Key(expressions, () if "event_time" in table.key else tuple(table.key)),
    )


def _as_the_ledger_says(table: Table) -> list[TableRule]:
    """Compare each partition's row count with the ledger, up to the ledger's last offset."""
    terms = {"bronze.events": "input", "silver.quarantine": "quarantined"}
    terms |= {"silver.late": "late", "silver.duplicates": "duplicates"}
    term = "silver" if table.topic else terms.get(table.name)
    if term is None:
        return []
    topic = f"'{table.topic}'" if table.topic else "topic"
    found = (
        f"select l.topic, l.partition, count(b.offset) as rows, first(l.{term}) as ledger "  # noqa: S608
        f"from {view(LEDGER)} l left join (select {topic} as topic, partition, offset from {BATCH}) b "
        "on b.topic = l.topic and b.partition = l.partition and b.offset < l.until "
        f"where l.topic = {topic if table.topic else 'l.topic'} group by l.topic, l.partition"
    )
    return [
        TableRule(
            name="as_the_ledger_says",
            table=table.name,
            severity="fail",
            description=f"The table has as many rows as the ledger counts as '{term}'.",
            query=f"select * from ({found}) where rows != ledger",  # noqa: S608
            needs=LEDGER,
        )
    ]


def _reference(entry: Entry, table: Table) -> TableRule:
    """Find rows whose value is missing from a column of another table; nulls are ignored."""
    column, (other, theirs) = entry["column"], _other_column(entry, "refers_to")
    entry.check("column", column, list(table.columns), f"{table.name} has no column")
    shown = ", ".join(f"b.{name}" for name in dict.fromkeys([*table.key, column]))
    query = (
        f"select {shown} from {BATCH} b left anti join {view(other)} o on b.{column} = o.{theirs} "  # noqa: S608
        f"where b.{column} is not null"
    )
    return _written(entry, table, query, other)


def _freshness(entry: Entry, table: Table) -> TableRule:
    """Find a table whose newest row is too far behind the clock or behind the newest row of another table."""
    newest, at_most = entry["newest"], entry["at_most"]
    entry.check("newest", newest, list(table.columns), f"{table.name} has no column")
    duration = _DURATION.fullmatch(at_most)
    if not duration:
        raise entry.wrong("at_most", f"'{at_most}': it should be like '2 hours' (seconds, minutes, hours, days)")
    if entry["behind"] == NOW:
        other, theirs, line = None, None, "select current_timestamp() as expected"
    else:
        other, theirs = _other_column(entry, "behind")
        line = f"select max({theirs}) as expected from {view(other)}"  # noqa: S608
    query = (
        f"select newest, expected from (select max({newest}) as newest from {BATCH}) cross join ({line}) "  # noqa: S608
        f"where expected is not null and (newest is null or newest < expected - interval {at_most})"
    )
    parts = Freshness(newest, theirs, timedelta(**{f"{duration[2]}s": int(duration[1])}))
    return _written(entry, table, query, other, parts)


def _bounds(entry: Entry, table: Table) -> TableRule:
    """Find a table whose measure is out of bounds; an empty table has no measure."""
    measure, bounds = entry["measure"], _BOUNDS.fullmatch(entry["between"])
    for name in columns_in(measure):
        entry.check("measure", name, list(table.columns), f"{table.name} has no column")
    if not bounds:
        raise entry.wrong("between", f"'{entry['between']}': it should be two numbers, like '0 and 0.05'")
    low, high = bounds.groups()
    escaped = measure.replace("{", "{{").replace("}", "}}")
    query = (
        f"select measure, {low} as at_least, {high} as at_most from (select {escaped} as measure from {BATCH}) "  # noqa: S608
        f"where not measure between {low} and {high}"
    )
    return _written(entry, table, query, None, Bounds(measure, low, high))


def _gap(entry: Entry, table: Table) -> TableRule:
    """Find hours without a row between two busy hours; quiet neighbours or closing hours are no gap."""
    column, busy, closed = entry["hours_of"], entry["busy"], entry["closed"]
    entry.check("hours_of", column, list(table.columns), f"{table.name} has no column")
    if not busy.isdecimal():
        raise entry.wrong("busy", f"'{busy}': it should be a number of rows, like 200")
    for name in columns_in(closed):
        entry.check("closed", name, ["hour"], "it is an expression on the start of an hour, 'hour', and has no")
    closed = closed.replace("{", "{{").replace("}", "}}")
    hours = f"select date_trunc('hour', {column}) as hour, count(*) as rows from {BATCH} group by 1"  # noqa: S608
    neighbours = (
        "select lag(hour) over (order by hour) as last_before, hour as first_after, "  # noqa: S608
        f"least(rows, lag(rows) over (order by hour)) as rows from ({hours})"
    )
    query = (
        f"select last_before, first_after from ({neighbours}) "  # noqa: S608
        f"where rows >= {busy} and first_after > last_before + interval 1 hour and exists("
        "sequence(last_before + interval 1 hour, first_after - interval 1 hour, interval 1 hour), "
        f"hour -> not coalesce({closed}, false))"
    )
    return _written(entry, table, query, None)


_WRITTEN = {"reference": _reference, "freshness": _freshness, "bounds": _bounds, "gap": _gap}


def _other_column(entry: Entry, key: str) -> tuple[str, str]:
    """Parse a column of another table, written as layer.table.column."""
    other, _, column = entry[key].rpartition(".")
    entry.check(key, other, list(tables()), "there is no table")
    entry.check(key, column, list(tables()[other].columns), f"{other} has no column")
    return other, column


def _written(
    entry: Entry, table: Table, query: str, needs: str | None, parts: Bounds | Freshness | None = None
) -> TableRule:
    return TableRule(entry["name"], table.name, entry["severity"], entry["description"], query, needs, parts)
