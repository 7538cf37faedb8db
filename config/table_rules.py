"""Rules of whole tables, each a query for the rows that break it: none found, the rule holds.

Two follow from the declarations and are written nowhere else: the key is unique, and landing's tables hold what the
ledger says. The others stand in the rule files, beside the rules of rows: references, freshness, bounds, gaps.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from config.declarations import Table, tables
from config.rule_expressions import asking, columns_in
from config.rule_files import FOLDER, Entry, entries

BATCH = "{batch}"  # Great Expectations puts the table's name here
LEDGER = "ledger"
NOW = "now"
_BOUNDS = re.compile(r"(-?\d+(?:\.\d+)?) and (-?\d+(?:\.\d+)?)")
_DURATION = re.compile(r"\d+ (second|minute|hour|day)s?")


@dataclass(frozen=True)
class TableRule:
    """What must hold for a table as a whole."""

    name: str
    table: str
    severity: str
    description: str
    query: str
    """Finds what breaks it, in SQL over {batch} and the views of what it needs."""

    needs: str | None = None
    """Another table, or the ledger, without which it cannot be told."""

    @property
    def look(self) -> str:
        """Give the command that shows all of what breaks it in the tables that are served."""
        if self.needs == LEDGER:
            return "lakehouse check ledger"
        query = self.query.replace(BATCH, self.table).replace("{{", "{").replace("}}", "}")
        return asking(query.replace(view(self.needs), self.needs) if self.needs else query)


def view(name: str) -> str:
    """Name the view under which the rules' queries find a table."""
    return f"audited_{name.replace('.', '_')}"


@cache
def table_rules(name: str, folder: Path = FOLDER) -> tuple[TableRule, ...]:
    """Give all rules of a table as a whole: those that follow from its declaration, then those of its file."""
    table = tables()[name]
    written = [_WRITTEN[entry.form](entry, table) for entry in entries(folder / f"{name}.yaml") if entry.form != "row"]
    return (_unique(table), *_as_the_ledger_says(table), *written)


def _unique(table: Table) -> TableRule:
    key = ", ".join(f"{column}" for column in table.key)
    return TableRule(
        name="key_unique",
        table=table.name,
        severity="fail",
        description=f"There is one row for each {', '.join(table.key)}.",
        query=f"select {key}, count(*) as copies from {BATCH} group by {key} having count(*) > 1",  # noqa: S608
    )


def _as_the_ledger_says(table: Table) -> list[TableRule]:
    """Compare each partition's rows with the ledger, as far as it reaches: a batch at hand is not counted yet."""
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
            description=f"The table holds as many rows as the ledger counts as '{term}'.",
            query=f"select * from ({found}) where rows != ledger",  # noqa: S608
            needs=LEDGER,
        )
    ]


def _reference(entry: Entry, table: Table) -> TableRule:
    """Find rows whose value is nowhere in a column of another table; an empty value refers to nothing."""
    column, (other, theirs) = entry["column"], _elsewhere(entry, "refers_to")
    entry.check("column", column, list(table.columns), f"{table.name} has no column")
    shown = ", ".join(f"b.{name}" for name in dict.fromkeys([*table.key, column]))
    query = (
        f"select {shown} from {BATCH} b left anti join {view(other)} o on b.{column} = o.{theirs} "  # noqa: S608
        f"where b.{column} is not null"
    )
    return _written(entry, table, query, other)


def _freshness(entry: Entry, table: Table) -> TableRule:
    """Find a table whose newest row is too far behind the clock, or behind the newest row of another table."""
    newest, at_most = entry["newest"], entry["at_most"]
    entry.check("newest", newest, list(table.columns), f"{table.name} has no column")
    if not _DURATION.fullmatch(at_most):
        raise entry.wrong("at_most", f"'{at_most}': it should be like '2 hours' (seconds, minutes, hours, days)")
    if entry["behind"] == NOW:
        other, line = None, "select current_timestamp() as expected"
    else:
        other, theirs = _elsewhere(entry, "behind")
        line = f"select max({theirs}) as expected from {view(other)}"  # noqa: S608
    query = (
        f"select newest, expected from (select max({newest}) as newest from {BATCH}) cross join ({line}) "  # noqa: S608
        f"where expected is not null and (newest is null or newest < expected - interval {at_most})"
    )
    return _written(entry, table, query, other)


def _bounds(entry: Entry, table: Table) -> TableRule:
    """Find a table of which some measure is out of its bounds; of an empty table there is none."""
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
    return _written(entry, table, query, None)


def _gap(entry: Entry, table: Table) -> TableRule:
    """Find hours without a row right between two busy ones; a quiet night is no gap, nor what a straggler leaves."""
    column, busy = entry["hours_of"], entry["busy"]
    entry.check("hours_of", column, list(table.columns), f"{table.name} has no column")
    if not busy.isdecimal():
        raise entry.wrong("busy", f"'{busy}': it should be a number of rows, like 200")
    hours = f"select date_trunc('hour', {column}) as hour, count(*) as rows from {BATCH} group by 1"  # noqa: S608
    neighbours = (
        "select lag(hour) over (order by hour) as last_before, hour as first_after, "  # noqa: S608
        f"least(rows, lag(rows) over (order by hour)) as rows from ({hours})"
    )
    query = (
        f"select last_before, first_after from ({neighbours}) "  # noqa: S608
        f"where rows >= {busy} and first_after > last_before + interval 1 hour"
    )
    return _written(entry, table, query, None)


_WRITTEN = {"reference": _reference, "freshness": _freshness, "bounds": _bounds, "gap": _gap}


def _elsewhere(entry: Entry, key: str) -> tuple[str, str]:
    """Read the column of another table, written as layer.table.column."""
    other, _, column = entry[key].rpartition(".")
    entry.check(key, other, list(tables()), "there is no table")
    entry.check(key, column, list(tables()[other].columns), f"{other} has no column")
    return other, column


def _written(entry: Entry, table: Table, query: str, needs: str | None) -> TableRule:
    return TableRule(entry["name"], table.name, entry["severity"], entry["description"], query, needs)
