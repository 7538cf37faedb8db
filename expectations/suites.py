"""Suites: the rules of a table and their counts -> a Great Expectations suite and its validation result.

A suite consists of core expectations only, so that `gx` reads and runs it without this project. A simple rule becomes
the expectation that a user of Great Expectations would write; any other becomes the query for the rows that break it.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import great_expectations as gx
import great_expectations.expectations as gxe
from great_expectations.core import ExpectationSuite, ExpectationSuiteValidationResult, ExpectationValidationResult
from great_expectations.expectations.expectation import Expectation

from config.declarations import Table, table_named
from config.rules import Rule
from config.table_rules import BATCH, Bounds, Key, TableRule, view
from expectations.counting import Counted

Relation = Callable[[str], str]
"""How a query refers to another table, or to the ledger, by its name."""

_SEVERITY = {"quarantine": "critical", "fail": "critical", "warn": "warning"}
_INTEGERS = ("int", "bigint")
_INTEGER = r"(-?\d+)"
_TEXT = r"'(?:[^'\\]|'')*'"
_COMPARED = {">=": ("min_value", False), ">": ("min_value", True), "<=": ("max_value", False), "<": ("max_value", True)}
_NO_EXCEPTION = {"raised_exception": False, "exception_traceback": None, "exception_message": None}


def suite(name: str, rules: Sequence[Rule | TableRule], relation: Relation = view) -> ExpectationSuite:
    """Build the suite of a table from its rules, in their order."""
    return ExpectationSuite(name=name, expectations=[_expectation(rule, relation) for rule in rules])


def _expectation(rule: Rule | TableRule, relation: Relation) -> Expectation:
    core = _row_expectation(rule) if isinstance(rule, Rule) else _table_expectation(rule)
    kind, arguments = core or (gxe.UnexpectedRowsExpectation, {"unexpected_rows_query": _query(rule, relation)})
    return kind(
        **arguments,
        description=f"{rule.description} ({rule.name})".replace("$", "$$"),
        severity=_SEVERITY[rule.severity],
        meta={"rule": rule.name, "severity": rule.severity, "description": rule.description, "look": rule.look},
    )


def _row_expectation(rule: Rule) -> tuple[Any, dict[str, Any]] | None:
    """Find the core expectation that is broken by exactly the rows that break a row rule: a null breaks neither."""
    table, column = table_named(rule.table), rule.column
    if column not in table.stored:
        return None
    if rule.expression == f"{column} is not null":
        return gxe.ExpectColumnValuesToNotBeNull, {"column": column}
    if table.columns[column].type == "string" and (
        found := re.fullmatch(rf"{column} in \(({_TEXT}(?:, *{_TEXT})*)\)", rule.expression)
    ):
        values = [text[1:-1].replace("''", "'") for text in re.findall(_TEXT, found[1])]
        return gxe.ExpectColumnValuesToBeInSet, {"column": column, "value_set": values}
    if table.columns[column].type not in _INTEGERS:
        return None
    if found := re.fullmatch(rf"{column} between {_INTEGER} and {_INTEGER}", rule.expression):
        bounds = {"min_value": int(found[1]), "max_value": int(found[2])}
        return (
            (gxe.ExpectColumnValuesToBeBetween, {"column": column, **bounds})
            if int(found[1]) <= int(found[2])
            else None
        )
    if found := re.fullmatch(rf"{column} (>=|>|<=|<) {_INTEGER}", rule.expression):
        bound, strict = _COMPARED[found[1]]
        limits = {bound: int(found[2]), f"strict_{bound[:3]}": strict}
        return gxe.ExpectColumnValuesToBeBetween, {"column": column, **limits}
    return None


def _table_expectation(rule: TableRule) -> tuple[Any, dict[str, Any]] | None:
    """Find the core expectation that is the same as a table rule."""
    match rule.parts:
        case Key(columns=(column,)):
            return gxe.ExpectColumnValuesToBeUnique, {"column": column}
        case Key(columns=(_, _, *_) as columns):
            return gxe.ExpectCompoundColumnsToBeUnique, {"column_list": list(columns), "ignore_row_if": "never"}
        case Bounds("count(*)", low, high) if low.isdecimal() and high.isdecimal():
            return gxe.ExpectTableRowCountToBeBetween, {"min_value": int(low), "max_value": int(high)}
    return None


def _query(rule: Rule | TableRule, relation: Relation) -> str:
    """Return the query for the rows that break a rule, over {batch} and the relations of other tables."""
    if isinstance(rule, Rule):
        braces = rule.expression.replace("{", "{{").replace("}", "}}")
        query = f"select {', '.join(rule.shown)} from {BATCH} where not ({braces})"  # noqa: S608
    else:
        query = rule.query.replace(view(rule.needs), relation(rule.needs)) if rule.needs else rule.query
    return query.replace(BATCH, _with_derived_columns(table_named(rule.table), query))


def _with_derived_columns(table: Table, query: str) -> str:
    """Return {batch}, or a query that adds to it the columns that are not stored, if the rule's query reads one."""
    if not table.valid_to or not re.search(r"\bvalid_to\b", query):
        return BATCH
    return f"(select {', '.join(table.stored)}, {table.valid_to} as valid_to from {BATCH})"  # noqa: S608


def result(
    expected: ExpectationSuite, counted: Sequence[Counted], meta: dict[str, Any]
) -> ExpectationSuiteValidationResult:
    """Build the validation result of a suite from the counts of its rules, in the same order."""
    results = [
        ExpectationValidationResult(
            success=not each.rows,
            expectation_config=expectation.configuration,
            result=_outcome(expectation, each),
            exception_info=_NO_EXCEPTION,
        )
        for expectation, each in zip(expected.expectations, counted, strict=True)
    ]
    kept = sum(bool(each.success) for each in results)
    return ExpectationSuiteValidationResult(
        success=kept == len(results),
        results=results,
        suite_name=expected.name,
        statistics={
            "evaluated_expectations": len(results),
            "successful_expectations": kept,
            "unsuccessful_expectations": len(results) - kept,
            "success_percent": 100 * kept / len(results) if results else None,
        },
        meta={"great_expectations_version": gx.__version__, **meta},
    )


def _outcome(expectation: Expectation, counted: Counted) -> dict[str, Any]:
    """Return the numbers of a result under the names that Great Expectations gives them."""
    if isinstance(expectation, gxe.UnexpectedRowsExpectation):
        return {"observed_value": counted.rows, "details": {"unexpected_rows": counted.sample}}
    if isinstance(expectation, gxe.ExpectTableRowCountToBeBetween):
        return {"observed_value": counted.table_rows}
    # A rule on a key counts keys, Great Expectations the rows that have them.
    rows = counted.copies or counted.rows
    columns = [expectation.column] if hasattr(expectation, "column") else expectation.column_list
    values = [{name: row[name] for name in columns} for row in counted.sample]
    return {
        "element_count": counted.table_rows,
        "unexpected_count": rows,
        "unexpected_percent": 100 * rows / counted.table_rows if counted.table_rows else None,
        "partial_unexpected_list": [row[columns[0]] for row in values] if len(columns) == 1 else values,
    }
