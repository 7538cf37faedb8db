"""Table rules: valid files load, errors name the line, and each rule finds the rows that violate it."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from config.declarations import tables
from config.errors import LakehouseError
from config.table_rules import BATCH, table_rules, view

GOOD = """\
- name: order_known
  column: order_id
  refers_to: silver.orders.order_id
  severity: fail
  description: A payment is for an order.
- name: mostly_large
  measure: avg(amount_cents)
  between: 100 and 5000
  severity: warn
  description: Nobody pays by the cent.
- name: up_to_date
  newest: event_time
  behind: silver.orders.event_time
  at_most: 1 hour
  severity: warn
  description: Payments follow orders.
- name: no_hour_missing
  hours_of: event_time
  busy: 2
  severity: fail
  description: Busy before, busy after, never empty in between.
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "silver.payments.yaml"


def found(spark: SparkSession, file: Path, name: str) -> list[dict[str, object]]:
    """Run the query of a rule, as Great Expectations does."""
    (rule,) = (rule for rule in table_rules("silver.payments", file.parent) if rule.name == name)
    return [row.asDict() for row in spark.sql(rule.query.format(batch=view("silver.payments"))).collect()]


def test_every_table_has_a_rule_for_its_key_and_every_file_loads() -> None:
    for name in tables():
        assert [rule.name for rule in table_rules(name)].count("key_unique") == 1


def test_landing_is_compared_with_the_ledger_by_the_term_it_counts() -> None:
    terms = {
        "bronze.events": "'input'",
        "silver.clicks": "'silver'",
        "silver.quarantine": "'quarantined'",
        "silver.late": "'late'",
        "silver.duplicates": "'duplicates'",
    }
    for name, term in terms.items():
        (rule,) = (rule for rule in table_rules(name) if rule.name == "as_the_ledger_says")
        assert term in rule.description
    assert not [rule for rule in table_rules("gold.trending") if rule.name == "as_the_ledger_says"]


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        ("refers_to: silver.orders.", "refers_to: silver.order.", 3, "no table 'silver.order': did you mean"),
        (".order_id\n", ".ordr_id\n", 3, "silver.orders has no column 'ordr_id': did you mean 'order_id'?"),
        ("column: order_id", "column: order", 2, "silver.payments has no column 'order': did you mean 'order_id'?"),
        ("  refers_to:", "  refer_to:", 3, "unknown key 'refer_to': did you mean 'refers_to'?"),
        ("avg(amount_cents)", "avg(amount)", 7, "no column 'amount'"),
        ("100 and 5000", "100 to 5000", 8, "it should be two numbers, like '0 and 0.05'"),
        ("  between: 100 and 5000\n", "", 6, "the rule has no 'between'"),
        ("newest: event_time", "newest: evnt_time", 12, "no column 'evnt_time': did you mean 'event_time'?"),
        ("at_most: 1 hour", "at_most: soon", 14, "it should be like '2 hours'"),
        ("busy: 2", "busy: many", 19, "'many': it should be a number of rows"),
        ("  busy: 2\n", "  busy: 2\n  closed: hour(at) < 6\n", 20, "has no 'at': allowed: hour"),
        ("severity: fail", "severity: quarantine", 4, "severity 'quarantine': allowed: fail, warn"),
        ("  at_most: 1 hour\n", "  at_most: 1 hour\n  measure: 1\n", 15, "unknown key 'measure'"),
    ],
)
def test_a_typo_is_reported_with_its_line_and_what_was_meant(
    file: Path, old: str, new: str, line: int, what: str
) -> None:
    file.write_text(GOOD.replace(old, new))
    with pytest.raises(LakehouseError) as error:
        table_rules("silver.payments", file.parent)
    assert error.value.problem.startswith(f"{file}, line {line}: ")
    assert what in error.value.problem


def test_each_form_finds_what_breaks_it_and_nothing_else(spark: SparkSession, file: Path) -> None:
    file.write_text(GOOD)
    columns = "event_id string, order_id string, amount_cents bigint, event_time timestamp"
    paid = "select 'e{}' event_id, {} order_id, {}L amount_cents, timestamp'2026-01-05 {}' event_time"
    spark.sql(paid.format(1, "'o1'", 50, "12:00:00")).createOrReplaceTempView(view("silver.orders"))
    payments = [paid.format(2, "'o1'", 50, "10:00:00"), paid.format(3, "'o9'", 60, "10:30:00")]
    payments.append(paid.format(4, "null", 70, "09:00:00"))
    spark.sql(" union all ".join(payments)).createOrReplaceTempView(view("silver.payments"))
    assert [(row["event_id"], row["order_id"]) for row in found(spark, file, "order_known")] == [("e3", "o9")]
    assert [row["measure"] for row in found(spark, file, "mostly_large")] == [60.0]
    assert [str(row["newest"]) for row in found(spark, file, "up_to_date")] == ["2026-01-05 10:30:00"]
    assert found(spark, file, "key_unique") == []
    again = [paid.format(2, "'o2'", 5, clock) for clock in ("09:59:59", "11:00:00")]
    spark.sql(" union all ".join([*payments, *again])).createOrReplaceTempView(view("silver.payments"))
    assert found(spark, file, "key_unique") == []  # in another hour, an id is that of another event
    spark.sql(" union all ".join([*payments, again[0], again[0]])).createOrReplaceTempView(view("silver.payments"))
    assert [(row["event_id"], row["copies"]) for row in found(spark, file, "key_unique")] == [("e2", 2)]
    spark.createDataFrame([], columns).createOrReplaceTempView(view("silver.payments"))
    assert found(spark, file, "mostly_large") == []
    assert len(found(spark, file, "up_to_date")) == 1


def test_an_hour_is_missing_between_busy_ones_only(spark: SparkSession, file: Path) -> None:
    file.write_text(GOOD)

    def missing(*hours: int) -> list[str]:
        rows = [(f"e{number}", f"2026-01-05 {hour:02}:30:00") for number, hour in enumerate(hours)]
        frame = spark.createDataFrame(rows, "event_id string, at string")
        frame.selectExpr("event_id", "timestamp(at) as event_time").createOrReplaceTempView(view("silver.payments"))
        return [f"{row['last_before']:%H}-{row['first_after']:%H}" for row in found(spark, file, "no_hour_missing")]

    assert missing(8, 8, 9, 10, 10) == []
    assert missing(8, 8, 10, 10, 11) == ["08-10"]
    assert missing(1, 8, 8, 9, 9, 12) == []  # a straggler, and the end of the day


@pytest.mark.parametrize(
    ("closed", "gaps"),
    [
        ("hour(hour) between 9 and 10", []),
        ("hour(hour) = 9", ["08-11"]),  # the shop opened at ten
        ("date(hour) = '2026-01-05'", []),
        ("date(hour) = '2026-01-06'", ["08-11"]),
        ("hour >= timestamp'2026-01-05 09:00:00' and hour < timestamp'2026-01-05 11:00:00'", []),
        ("null", ["08-11"]),
    ],
)
def test_hours_at_which_the_shop_is_closed_are_not_missing(
    spark: SparkSession, file: Path, closed: str, gaps: list[str]
) -> None:
    file.write_text(GOOD.replace("  busy: 2\n", f'  busy: 2\n  closed: "{closed}"\n'))
    rows = ", ".join(f"timestamp'2026-01-05 {hour}:30:00'" for hour in ("08", "08", "11", "11"))
    spark.sql(f"select explode(array({rows})) as event_time").createOrReplaceTempView(view("silver.payments"))
    assert [f"{row['last_before']:%H}-{row['first_after']:%H}" for row in found(spark, file, "no_hour_missing")] == gaps


def test_freshness_by_the_clock(spark: SparkSession, file: Path) -> None:
    file.write_text(GOOD.replace("behind: silver.orders.event_time", "behind: now"))
    for age, broken in (("30 minutes", 0), ("2 hours", 1)):
        query = f"select 'e' event_id, current_timestamp() - interval {age} event_time"
        spark.sql(query).createOrReplaceTempView(view("silver.payments"))
        assert len(found(spark, file, "up_to_date")) == broken


def test_what_to_run_names_the_served_tables(file: Path) -> None:
    file.write_text(GOOD)
    for rule in table_rules("silver.payments", file.parent):
        assert BATCH not in rule.look
        assert "audited" not in rule.look
        assert rule.look.startswith("lakehouse ")
