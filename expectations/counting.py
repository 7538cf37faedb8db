"""Counting: tables and their rules -> for each rule the rows that break it; one aggregation per table for most rules.

The aggregation only counts, which Spark compiles to a loop over the columns that rules name. A broken rule is evaluated
once more to show some of its rows. Keys are counted by their hashes first: if these are unique, so are the keys. Only
references, gaps and the ledger need a query of their own.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from config.errors import LakehouseError
from config.parallel import in_parallel
from config.rule_files import FOLDER
from config.rules import Rule, rules
from config.table_rules import LEDGER, Bounds, Freshness, Key, TableRule, table_rules, view

SAMPLE = 5
THREADS = 4  # most time passes while Spark plans; more threads than cores keep the cores busy


@dataclass(frozen=True)
class Counted:
    """A rule with the number of rows that break it, some of these, and the number of all rows of the table."""

    rule: Rule | TableRule
    rows: int
    sample: list[dict[str, Any]]
    table_rows: int
    copies: int = 0
    """For a rule on a key: the number of rows whose key another row has."""


@dataclass(frozen=True)
class _Table:
    name: str
    frame: DataFrame
    tested: tuple[Rule | TableRule, ...]
    newest: frozenset[str]
    """Columns whose newest value a rule of this or another table needs."""


def count(
    frames: Mapping[str, DataFrame], others: Mapping[str, DataFrame], *, ledger: bool, folder: Path = FOLDER
) -> dict[str, list[Counted]]:
    """Count the rows that break each rule of some tables; skip the rules that need a table which is not given.

    Rules read tables, and the ledger, through the temporary views of their names (`table_rules.view`).
    """
    available = {*frames, *others, *([LEDGER] if ledger else [])}
    tested = {name: _checkable(name, folder, available) for name in sorted(frames)}
    newest = _newest_columns(tested)
    tables = [_Table(name, frames[name], tested[name], newest.get(name, frozenset())) for name in tested]
    references = [_Table(name, others[name], (), newest[name]) for name in newest if name not in frames]
    aggregates = in_parallel(_aggregate, [*tables, *references], THREADS)
    by_table = {table.name: values for table, values in zip([*tables, *references], aggregates, strict=True)}
    return dict(zip(tested, in_parallel(partial(_count_rules, aggregates=by_table), tables, THREADS), strict=True))


def _checkable(name: str, folder: Path, available: set[str]) -> tuple[Rule | TableRule, ...]:
    of_table = (rule for rule in table_rules(name, folder) if rule.needs is None or rule.needs in available)
    return (*rules(name, folder), *of_table)


def _newest_columns(tested: Mapping[str, Sequence[Rule | TableRule]]) -> dict[str, frozenset[str]]:
    """Collect, by table, the columns whose newest value is compared."""
    columns: dict[str, set[str]] = {}
    for name, chosen in tested.items():
        for rule in chosen:
            if isinstance(rule, TableRule) and isinstance(rule.parts, Freshness):
                columns.setdefault(name, set()).add(rule.parts.newest)
                if rule.needs and rule.parts.behind:
                    columns.setdefault(rule.needs, set()).add(rule.parts.behind)
    return {name: frozenset(found) for name, found in columns.items()}


def _aggregate(table: _Table) -> dict[str, Any]:
    """Run the one aggregation of a table: its rows, the rows that break each rule, the newest values."""
    rule_columns = {}
    for number, rule in enumerate(table.tested):
        if isinstance(rule, Rule):
            rule_columns[f"rule {number}"] = f"count_if(not ({rule.expression}))"
        elif isinstance(rule.parts, Bounds):
            bounds = f"({rule.parts.measure}) between {rule.parts.low} and {rule.parts.high}"
            rule_columns[f"rule {number}"] = f"cast(not ({bounds}) as int)"
    columns = {"rows": "count(*)", **rule_columns}
    columns |= {f"newest {name}": f"unix_micros(cast(max(`{name}`) as timestamp))" for name in sorted(table.newest)}
    try:
        return _first(table.frame, columns)
    except (PySparkException, Py4JError):
        for number, rule in enumerate(table.tested):  # to name the rule that cannot be evaluated
            if column := rule_columns.get(f"rule {number}"):
                _checked(rule, partial(_first, table.frame, {"rule": column}))
        raise


def _first(frame: DataFrame, columns: Mapping[str, str]) -> dict[str, Any]:
    (row,) = frame.selectExpr(*(f"{expression} as `{name}`" for name, expression in columns.items())).collect()
    return dict(row.asDict())


def _checked(rule: Rule | TableRule, evaluate: Any) -> Any:
    """Evaluate a rule; an error names it."""
    try:
        return evaluate()
    except (PySparkException, Py4JError) as error:
        reason = str(error).partition("\n")[0]
        raise LakehouseError(f"{rule.table}: {rule.name} cannot be checked: {reason}") from error


def _count_rules(table: _Table, aggregates: Mapping[str, Mapping[str, Any]]) -> list[Counted]:
    """Count the rows that break each rule of a table, and sample them where there are any."""
    own = aggregates[table.name]
    row_rules = {number: rule for number, rule in enumerate(table.tested) if isinstance(rule, Rule)}
    broken = {number: rule for number, rule in row_rules.items() if own[f"rule {number}"]}
    samples = _row_samples(table.frame, broken) if broken else {}
    found = []
    for number, rule in enumerate(table.tested):
        if isinstance(rule, Rule):
            found.append(Counted(rule, own[f"rule {number}"], samples.get(number, []), own["rows"]))
        elif _holds(table, rule, own.get(f"rule {number}"), aggregates):
            found.append(Counted(rule, 0, [], own["rows"]))
        else:
            found.append(_checked(rule, partial(_query, table, rule, own["rows"])))
    return found


def _row_samples(frame: DataFrame, broken: Mapping[int, Rule]) -> dict[int, list[dict[str, Any]]]:
    """Find the least and the greatest row that breaks each of some row rules, in one pass."""
    columns = []
    for number, rule in broken.items():
        row = F.when(F.expr(f"not ({rule.expression})"), F.struct(*(F.col(f"`{name}`") for name in rule.shown)))
        rows = F.struct(F.array(F.min(row), F.max(row)).alias("sample"))
        columns.append(F.to_json(rows, {"ignoreNullFields": "false"}).alias(str(number)))
    (found,) = frame.agg(*columns).collect()
    samples = {}
    for number in broken:
        distinct = {json.dumps(row): row for row in json.loads(found[str(number)])["sample"] if row is not None}
        samples[number] = [_shown(row) for row in distinct.values()]
    return samples


def _holds(
    table: _Table, rule: TableRule, out_of_bounds: int | None, aggregates: Mapping[str, Mapping[str, Any]]
) -> bool:
    """Decide from aggregates whether a table rule certainly holds; otherwise its query decides."""
    match rule.parts:
        case Bounds():
            return not out_of_bounds
        case Freshness(newest, behind, at_most):
            expected = aggregates[rule.needs][f"newest {behind}"] if rule.needs else _micros(datetime.now(UTC))
            mine = aggregates[table.name][f"newest {newest}"]
            return expected is None or (mine is not None and mine >= expected - at_most.total_seconds() * 1_000_000)
        case Key(expressions):
            # 64 bits for a key of any length: less to group and to exchange than the key itself.
            keys = f"count(distinct xxhash64({', '.join(expressions)}))"
            counts = _checked(rule, partial(_first, table.frame, {"rows": "count(*)", "keys": keys}))
            return bool(counts["rows"] == counts["keys"])
        case _:
            return False


def _query(table: _Table, rule: TableRule, table_rows: int) -> Counted:
    """Run the query of a table rule, which returns the number of rows it finds with some of them."""
    found = rule.query.format(batch=view(table.name))
    copies = ", sum(copies) over () as _copies" if isinstance(rule.parts, Key) else ""
    query = f"select *, count(*) over () as _rows{copies} from ({found}) limit {SAMPLE}"  # noqa: S608
    sample = [row.asDict() for row in table.frame.sparkSession.sql(query).collect()]
    rows, copied = 0, 0
    for row in sample:
        rows, copied = row.pop("_rows"), row.pop("_copies", 0)
    return Counted(rule, rows, [_shown(row) for row in sample], table_rows, copied)


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value if isinstance(value, int | float | None) else str(value) for name, value in row.items()}


def _micros(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000)
