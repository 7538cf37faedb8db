"""Suites: the rules of a table -> a Great Expectations suite that counts and samples the rows that break each rule.

Row rules are counted in one pass over the table, with the expressions that landing uses for quarantine. The built-in
column expectations would ignore rows where the column is null; quarantine does not.
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


def suite(table: str, available: Collection[str]) -> ExpectationSuite:
    """Build the suite of a table; skip rules that need a table which is not available."""
    checkable = [rule for rule in table_rules(table) if rule.needs is None or rule.needs in available]
    expectations = [
        *(_row_expectation(rule) for rule in rules(table)),
        *(_table_expectation(rule) for rule in checkable),
    ]
    return ExpectationSuite(name=table, expectations=expectations)


def _row_expectation(rule: Rule) -> "ExpectRowsToKeepTheRule":
    return ExpectRowsToKeepTheRule(expression=rule.expression, shown=rule.shown, **_metadata(rule))


def _table_expectation(rule: TableRule) -> "ExpectTheQueryToFindNothing":
    # One query returns both the number of rows and a sample.
    query = f"select *, count(*) over () as _rows from ({rule.query}) limit {SAMPLE}"  # noqa: S608
    return ExpectTheQueryToFindNothing(unexpected_rows_query=query, **_metadata(rule))


def _metadata(rule: Rule | TableRule) -> dict[str, Any]:
    meta = {"rule": rule.name, "severity": rule.severity, "description": rule.description, "look": rule.look}
    return {
        "description": f"{rule.description} ({rule.name})".replace("$", "$$"),
        "severity": _SEVERITY[rule.severity],
        "meta": meta,
    }


class RowBreaches(TableMetricProvider):  # type: ignore[misc]
    """Count the rows that break a rule, and sample the least and the greatest, in one pass for all rules."""

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
        counted = F.struct(F.count_if(breach).alias("rows"), F.array(F.min(row), F.max(row)).alias("sample"))
        return F.to_json(counted, {"ignoreNullFields": "false"}), metric_domain_kwargs, {}


class ExpectRowsToKeepTheRule(BatchExpectation):  # type: ignore[misc]
    """Expect every row to keep a row rule; a null result counts as kept."""

    expression: str
    shown: list[str]
    metric_dependencies: ClassVar[tuple[str, ...]] = ("table.row_breaches",)
    success_keys: ClassVar[tuple[str, ...]] = ("expression", "shown")
    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id",)

    def _validate(self, metrics: Any, runtime_configuration: Any = None, execution_engine: Any = None) -> Any:
        counted = json.loads(metrics["table.row_breaches"])
        distinct = {json.dumps(row): row for row in counted["sample"] if row is not None}
        return _result(counted["rows"], list(distinct.values()))


class ExpectTheQueryToFindNothing(UnexpectedRowsExpectation):  # type: ignore[misc]
    """Expect the query of a table rule to return no rows."""

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
