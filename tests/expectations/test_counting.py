"""Counting: Great Expectations, on the same rows, finds as many that break a rule of each kind as our aggregation."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import great_expectations as gx
import great_expectations.expectations as gxe
import pytest
from great_expectations.data_context.types.base import DataContextConfig, InMemoryStoreBackendDefaults
from pyspark.sql import DataFrame, SparkSession

from config.declarations import table_named
from config.errors import LakehouseError
from config.table_rules import LEDGER, view
from expectations.counting import Counted, count
from expectations.gate import LEDGER_COLUMNS
from expectations.suites import result, suite
from lake.ledger import TERMS

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
PAYMENTS = """\
- {name: has_country, column: country, expression: country is not null}
- {name: known_type, column: type, expression: "type in ('payment_received', 'it''s odd')"}
- {name: from_ten_to_99, column: amount_cents, expression: amount_cents between 10 and 99}
- {name: positive, column: amount_cents, expression: amount_cents > 0}
- {name: not_negative, column: amount_cents, expression: amount_cents >= 0}
- {name: below_100, column: amount_cents, expression: amount_cents < 100}
- {name: at_most_100, column: amount_cents, expression: amount_cents <= 100}
- {name: two_letters, column: country, expression: "country rlike '^[A-Z]{2}$'"}
- {name: this_year, column: event_time, expression: "event_time >= timestamp'2026-01-01'"}
- {name: order_known, column: order_id, refers_to: silver.orders.order_id}
- {name: enough_rows, measure: count(*), between: 100 and 200}
- {name: few_rows, measure: count(*), between: 0 and 100}
- {name: large_on_average, measure: avg(amount_cents), between: 1000 and 2000}
- {name: small_on_average, measure: avg(amount_cents), between: 0 and 2000}
- {name: no_hour_missing, hours_of: event_time, busy: 2}
- {name: up_with_orders, newest: event_time, behind: silver.orders.event_time, at_most: 1 hour}
- {name: days_behind_orders, newest: event_time, behind: silver.orders.event_time, at_most: 3 days}
- {name: up_to_date, newest: event_time, behind: now, at_most: 1 day}
"""
PAYMENTS_BREAK = {
    "has_country": 2,
    "known_type": 1,
    "from_ten_to_99": 4,
    "positive": 2,
    "not_negative": 1,
    "below_100": 2,
    "at_most_100": 1,
    "two_letters": 1,
    "this_year": 1,
    "key_unique": 1,
    "as_the_ledger_says": 1,
    "order_known": 2,
    "enough_rows": 1,
    "few_rows": 0,
    "large_on_average": 1,
    "small_on_average": 0,
    "no_hour_missing": 1,
    "up_with_orders": 1,
    "days_behind_orders": 0,
    "up_to_date": 1,
}


def frame(spark: SparkSession, table: str, *rows: dict[str, Any]) -> DataFrame:
    """Make rows of a table; a column that is not given is null."""
    columns = table_named(table).stored
    return spark.createDataFrame([tuple(row.get(name) for name in columns) for row in rows], table_named(table).ddl)


def payment(number: int, amount: int | None, **fields: Any) -> dict[str, Any]:
    common = {"event_id": f"e{number}", "type": "payment_received", "event_time": NOON, "country": "DE"}
    return common | {"order_id": "o1", "partition": 0, "offset": number, "amount_cents": amount} | fields


def counted(frames: Mapping[str, DataFrame], folder: Path, *, ledger: bool = False) -> dict[str, list[Counted]]:
    for name, rows in frames.items():
        rows.createOrReplaceTempView(view(name))
    return count(frames, {}, ledger=ledger, folder=folder)


def validated(rows: DataFrame, expected: Any) -> Any:
    """Let Great Expectations count, with its own metrics, on the rows themselves."""
    config = DataContextConfig(
        analytics_enabled=False,
        progress_bars={"globally": False},
        store_backend_defaults=InMemoryStoreBackendDefaults(),
    )
    source = gx.get_context(mode="ephemeral", project_config=config).data_sources.add_spark("test", persist=False)
    batch = source.add_dataframe_asset("rows").add_batch_definition_whole_dataframe("rows")
    return batch.get_batch({"dataframe": rows}).validate(expected)


def numbers(validation: Any) -> list[tuple[str, bool, dict[str, Any]]]:
    """Return what a validation counted for each expectation."""
    names = ("observed_value", "element_count", "unexpected_count")
    return [
        (
            each.expectation_config.meta["rule"],
            bool(each.success),
            {name: each.result[name] for name in names if name in each.result},
        )
        for each in validation.results
    ]


def assert_great_expectations_counts_the_same(rows: DataFrame, found: list[Counted]) -> Any:
    expected = suite(found[0].rule.table, [each.rule for each in found])
    ours, theirs = numbers(result(expected, found, {})), numbers(validated(rows, expected))
    assert ours == theirs
    assert all(counts for _, _, counts in ours)
    return expected


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    common = "}\n"
    (tmp_path / "silver.payments.yaml").write_text(
        PAYMENTS.replace(common, ", severity: fail, description: A rule.}\n")
    )
    return tmp_path


@pytest.fixture
def payments(spark: SparkSession) -> dict[str, DataFrame]:
    """Payments with rows against each kind of rule, an order, and a ledger that counts another number of payments."""
    rows = [
        payment(1, 50, country=None),
        payment(2, 0, country=None),
        payment(3, -5, country="d"),
        payment(4, 100, type="payment_lost"),
        payment(5, 5000, event_time=datetime(2025, 1, 1, tzinfo=UTC), order_id="o7"),
        payment(6, None, type=None, order_id=None),
        payment(7, 50, order_id="o8", event_time=NOON + timedelta(hours=3)),
        payment(8, 50, type="it's odd", event_time=NOON + timedelta(hours=3)),
        payment(8, 50, event_time=NOON + timedelta(hours=3, minutes=1)),
    ]
    terms = {"until": 100, "input": 9} | dict.fromkeys(TERMS, 0) | {"silver": 8}
    spark.createDataFrame([("payments", 0, *terms.values())], LEDGER_COLUMNS).createOrReplaceTempView(view(LEDGER))
    order = {"event_id": "s1", "order_id": "o1", "event_time": NOON + timedelta(days=2)}
    return {
        "silver.payments": frame(spark, "silver.payments", *rows),
        "silver.orders": frame(spark, "silver.orders", order),
    }


def test_great_expectations_counts_as_many_rows_for_every_kind_of_rule(
    payments: dict[str, DataFrame], folder: Path
) -> None:
    found = counted(payments, folder, ledger=True)["silver.payments"]
    assert {each.rule.name: each.rows for each in found} == PAYMENTS_BREAK
    expected = assert_great_expectations_counts_the_same(payments["silver.payments"], found)
    kinds = {each.meta["rule"]: type(each) for each in expected.expectations}
    assert kinds["has_country"] is gxe.ExpectColumnValuesToNotBeNull
    assert kinds["known_type"] is gxe.ExpectColumnValuesToBeInSet
    between = {name for name, kind in kinds.items() if kind is gxe.ExpectColumnValuesToBeBetween}
    assert between == {"from_ten_to_99", "positive", "not_negative", "below_100", "at_most_100"}
    bounds = {name for name, kind in kinds.items() if kind is gxe.ExpectTableRowCountToBeBetween}
    assert bounds == {"enough_rows", "few_rows"}


def test_great_expectations_counts_the_rows_of_a_key_that_is_there_twice(spark: SparkSession, tmp_path: Path) -> None:
    order = {"order_id": "o1", "status": "paid", "changes": 1}
    view = {"window_start": NOON, "window_end": NOON, "product_id": "p1", "tier": "gold", "views": 1}
    frames = {
        "gold.order_status": frame(spark, "gold.order_status", *[order] * 3, order | {"order_id": "o2"}),
        "gold.views_per_minute": frame(spark, "gold.views_per_minute", *[view] * 2, view | {"tier": "basic"}),
    }
    found = counted(frames, tmp_path)
    kinds = {}
    for name, of_table in found.items():
        assert [(each.rule.name, each.rows) for each in of_table] == [("key_unique", 1)]
        (kinds[name],) = assert_great_expectations_counts_the_same(frames[name], of_table).expectations
    assert isinstance(kinds["gold.order_status"], gxe.ExpectColumnValuesToBeUnique)
    assert isinstance(kinds["gold.views_per_minute"], gxe.ExpectCompoundColumnsToBeUnique)


def test_a_derived_column_is_derived_in_the_query_too(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "silver.users.yaml").write_text(
        "- {name: open, column: valid_to, expression: valid_to is null, severity: fail, description: A rule.}\n"
    )
    users = [{"event_id": f"u{day}", "user_id": "u1", "valid_from": NOON + timedelta(days=day)} for day in range(3)]
    stored = frame(spark, "silver.users", *users)
    derived = stored.selectExpr("*", f"{table_named('silver.users').valid_to} as valid_to")
    found = counted({"silver.users": derived}, tmp_path)["silver.users"]
    assert [each.rows for each in found] == [2, 0]
    assert_great_expectations_counts_the_same(stored, found)


def test_an_empty_table_breaks_only_rules_that_count_its_rows_or_expect_recent_ones(
    spark: SparkSession, folder: Path
) -> None:
    frames = {name: frame(spark, name) for name in ("silver.payments", "silver.orders")}
    found = counted(frames, folder)["silver.payments"]
    assert [each.rule.name for each in found if each.rows] == ["enough_rows", "up_to_date"]


def test_a_table_without_rows_is_behind_one_that_has_some(spark: SparkSession, folder: Path) -> None:
    order = {"event_id": "s1", "order_id": "o1", "event_time": NOON}
    frames = {
        "silver.payments": frame(spark, "silver.payments"),
        "silver.orders": frame(spark, "silver.orders", order),
    }
    found = counted(frames, folder)["silver.payments"]
    late = {"up_with_orders", "days_behind_orders", "up_to_date"}
    assert {each.rule.name for each in found if each.rows} == {"enough_rows", *late}


@pytest.mark.parametrize(
    "rule",
    [
        "{name: other, column: amount_cents, expression: 1 / amount_cents > 0",
        "{name: other, measure: sum(1 / amount_cents), between: 0 and 1",
    ],
)
def test_a_rule_that_cannot_be_evaluated_is_named(
    spark: SparkSession, payments: dict[str, DataFrame], folder: Path, rule: str
) -> None:
    with (folder / "silver.payments.yaml").open("a") as file:
        file.write(f"- {rule}, severity: fail, description: A rule.}}\n")
    with pytest.raises(LakehouseError, match=r"silver\.payments: other cannot be checked: .*DIVIDE_BY_ZERO"):
        counted(payments, folder, ledger=True)
