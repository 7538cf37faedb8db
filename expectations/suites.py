"""Suites: the rules of a table -> Great Expectations, which count what breaks each rule and show some of it.

The rules of rows are counted in one pass over the table, by the very expressions that quarantine goes by; Great
Expectations' own way with a column leaves out rows where that column is empty, which quarantine does not.
"""

import json
from collections.abc import Collection
from typing import Any, ClassVar

from great_expectations.core import ExpectationSuite
from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.core.metric_function_types import MetricPartialFunctionTypes
from great_expectations.execution_engine import SparkDFExecutionEngine
from great_expectations.expectations import UnexpectedRowsExpectation
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.metrics.metric_provider import metric_partial
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider
from pyspark.sql import functions as F

from config.rules import Rule, rules
from config.table_rules import TableRule, table_rules

SAMPLE = 5
_SEVERITY = {"quarantine": "critical", "fail": "critical", "warn": "warning"}


def suite(table: str, there: Collection[str]) -> ExpectationSuite:
    """Build the suite of a table; a rule that needs what is not there is left out."""
    whole = [rule for rule in table_rules(table) if rule.needs is None or rule.needs in there]
    expectations = [*(_row_expectation(rule) for rule in rules(table)), *(_table_expectation(rule) for rule in whole)]
    return ExpectationSuite(name=table, expectations=expectations)


def _row_expectation(rule: Rule) -> "ExpectRowsToKeepTheRule":
    return ExpectRowsToKeepTheRule(expression=rule.expression, shown=rule.shown, **_told(rule))


def _table_expectation(rule: TableRule) -> "ExpectTheQueryToFindNothing":
    # Both in one query: how many rows there are, and some of them.
    query = f"select *, count(*) over () as _rows from ({rule.query}) limit {SAMPLE}"  # noqa: S608
    return ExpectTheQueryToFindNothing(unexpected_rows_query=query, **_told(rule))


def _told(rule: Rule | TableRule) -> dict[str, Any]:
    meta = {"rule": rule.name, "severity": rule.severity, "description": rule.description, "look": rule.look}
    return {
        "description": f"{rule.description} ({rule.name})".replace("$", "$$"),
        "severity": _SEVERITY[rule.severity],
        "meta": meta,
    }


class RowBreaches(TableMetricProvider):  # type: ignore[misc]
    """Counts the rows that break a rule, with the least and the greatest of them, in one pass with all other rules."""

    metric_name = "table.row_breaches"
    value_keys = ("expression", "shown")

    @metric_partial(  # type: ignore[untyped-decorator]
        engine=SparkDFExecutionEngine,
        partial_fn_type=MetricPartialFunctionTypes.AGGREGATE_FN,
        domain_type=MetricDomainTypes.TABLE,
    )
    def _spark(cls, metric_domain_kwargs: Any, metric_value_kwargs: Any, **_: Any) -> Any:
        breach = F.expr(f"coalesce(not ({metric_value_kwargs['expression']}), false)")
        row = F.when(breach, F.struct(*(F.col(f"`{name}`") for name in metric_value_kwargs["shown"])))
        found = F.struct(F.count_if(breach).alias("rows"), F.array(F.min(row), F.max(row)).alias("sample"))
        return F.to_json(found, {"ignoreNullFields": "false"}), metric_domain_kwargs, {}


class ExpectRowsToKeepTheRule(BatchExpectation):  # type: ignore[misc]
    """Expect every row to keep a rule of a rule file; where the expression is null, it is kept."""

    expression: str
    shown: list[str]
    metric_dependencies: ClassVar[tuple[str, ...]] = ("table.row_breaches",)
    success_keys: ClassVar[tuple[str, ...]] = ("expression", "shown")
    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id",)

    def _validate(self, metrics: Any, runtime_configuration: Any = None, execution_engine: Any = None) -> Any:
        found = json.loads(metrics["table.row_breaches"])
        distinct = {json.dumps(row): row for row in found["sample"] if row is not None}
        return _result(found["rows"], list(distinct.values()))


class ExpectTheQueryToFindNothing(UnexpectedRowsExpectation):  # type: ignore[misc]
    """Expect a rule's query to find nothing that breaks it."""

    metric_dependencies: ClassVar[tuple[str, ...]] = ("unexpected_rows_query.table",)

    def _validate(self, metrics: Any, runtime_configuration: Any = None, execution_engine: Any = None) -> Any:
        sample = [dict(row) for row in metrics["unexpected_rows_query.table"]]
        rows = [row.pop("_rows") for row in sample]
        return _result(rows[0] if rows else 0, sample)


def _result(rows: int, sample: list[dict[str, Any]]) -> dict[str, Any]:
    shown = [
        {name: value if isinstance(value, int | float | None) else str(value) for name, value in row.items()}
        for row in sample
    ]
    return {"success": rows == 0, "result": {"observed_value": rows, "details": {"sample": shown}}}
