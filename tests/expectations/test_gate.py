"""The gate: a row planted against each kind of rule is found, in the rule's own words; a warning lets tables pass."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from handmade import frame
from pydantic import SecretStr
from pyspark.sql import SparkSession

from config.settings import ROOT, Settings
from config.terminal import Terminal
from expectations import data_docs
from expectations.gate import Audit, Finding, audit
from expectations.settings import CheckSettings
from lake.ledger import TERMS
from lake.location import table_location
from lake.tables import read_arrow

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=5)


def payment(number: int, **fields: Any) -> dict[str, Any]:
    common = {"event_id": f"e{number}", "type": "payment_received", "event_time": NOON, "amount_cents": 100}
    return common | {"order_id": "o1", "country": "DE", "partition": 0, "offset": number} | fields


def paid_order(name: str, **fields: Any) -> dict[str, Any]:
    common = {"order_id": name, "order_time": NOON, "payment_event_id": "e1", "payment_time": NOON, "paid_cents": 1}
    return common | {"paid": True} | fields


def entry(**terms: int) -> dict[str, Any]:
    written_by = {"job": "landing", "topic": "payments", "partition": 0, "from_offset": 0, "to_offset": 10, "input": 10}
    return written_by | dict.fromkeys(TERMS, 0) | terms


@pytest.fixture(scope="module")
def bad_day(
    spark: SparkSession, settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Audit, Settings]:
    """An audit of tables with a fault of every kind in them."""
    nobody = {"expectations": CheckSettings(webhook=SecretStr("http://127.0.0.1:1/"))}
    mine = settings.at(tmp_path_factory.mktemp("bad day")).model_copy(update=nobody)
    unpaid = {"payment_event_id": None, "payment_time": None, "paid_cents": None, "paid": False}
    frames = {
        "silver.orders": frame(spark, "silver.orders", {"event_id": "s1", "order_id": "o1", "event_time": LATER}),
        "silver.payments": frame(
            spark, "silver.payments", payment(1), payment(2, amount_cents=-5), payment(3, amount_cents=-7)
        ),
        "gold.order_payments": frame(
            spark,
            "gold.order_payments",
            paid_order("o1"),
            *[paid_order("o2", **unpaid)] * 3,
        ),
        "gold.order_status": frame(
            spark,
            "gold.order_status",
            {"order_id": "o1", "status": "lost", "status_event_id": "s1", "changes": 1, "status_time": NOON},
        ),
    }
    return audit(frames, settings=mine, name="test bad day", ledger=[entry(silver=2)]), mine


def finding(audit: Audit, table: str, rule: str) -> Finding:
    (found,) = (each for each in audit.findings if (each.table, each.rule) == (table, rule))
    return found


def test_a_row_rule_counts_its_rows_and_shows_some_by_key(bad_day: tuple[Audit, Settings]) -> None:
    found = finding(bad_day[0], "silver.payments", "amount_not_negative")
    assert (found.rows, found.description) == (2, "An amount is not negative.")
    at = {"event_time": "2026-01-05T12:00:00.000Z"}
    assert found.sample == [{"event_id": "e2", **at, "amount_cents": -5}, {"event_id": "e3", **at, "amount_cents": -7}]
    assert found.look == (
        'lakehouse sql "select event_id, event_time, amount_cents from silver.payments where not (amount_cents >= 0)"'
    )


def test_a_key_that_is_there_twice_is_found(bad_day: tuple[Audit, Settings]) -> None:
    found = finding(bad_day[0], "gold.order_payments", "key_unique")
    assert found.sample == [{"order_id": "o2", "copies": 3}]


def test_a_reference_to_nothing_is_found(bad_day: tuple[Audit, Settings]) -> None:
    found = finding(bad_day[0], "gold.order_payments", "order_known")
    assert (found.rows, found.sample[0]) == (3, {"order_id": "o2"})
    assert finding(bad_day[0], "gold.order_payments", "payment_known").rows == 0


def test_a_volume_that_the_ledger_does_not_know_is_found(bad_day: tuple[Audit, Settings]) -> None:
    found = finding(bad_day[0], "silver.payments", "as_the_ledger_says")
    assert found.sample == [{"topic": "payments", "partition": 0, "rows": 3, "ledger": 2}]


def test_bounds_and_freshness_warn(bad_day: tuple[Audit, Settings]) -> None:
    warned = {(each.table, each.rule) for each in bad_day[0].warnings}
    assert ("gold.order_payments", "mostly_paid") in warned
    assert finding(bad_day[0], "gold.order_payments", "mostly_paid").sample[0]["measure"] == 0.25
    assert not [each for each in bad_day[0].failures if each.severity == "warn"]


def test_a_failure_is_described_with_its_rows_keys_and_what_to_run(
    bad_day: tuple[Audit, Settings], console: Terminal
) -> None:
    assert not bad_day[0].passed
    bad_day[0].show(console)
    output = console.export_text()
    for piece in (
        "✗ gold.order_status: An order is placed, paid, packed, shipped, delivered or cancelled.",
        "(status_of_the_shop, 1 row)",
        "status lost",
        "! gold.order_payments: Most orders are paid within the hour",
        'lakehouse sql "select order_id, status from gold.order_status where not (status in',
    ):
        assert piece in output
    assert "✓" not in output


def test_the_gate_does_not_load_great_expectations() -> None:
    look = "import sys, expectations.layers, expectations.commands; print('great_expectations' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], cwd=ROOT, text=True, capture_output=True, check=True)
    assert done.stdout == "False\n"


def test_a_webhook_that_cannot_be_reached_is_named_and_the_audit_still_fails(
    bad_day: tuple[Audit, Settings], console: Terminal
) -> None:
    (reason,) = bad_day[0].not_sent
    assert "refused" in reason
    assert not bad_day[0].passed
    bad_day[0].show(console)
    assert "! Not notified: webhook: " in console.export_text()


@pytest.fixture(scope="module")
def documented(bad_day: tuple[Audit, Settings]) -> tuple[Audit, Settings]:
    data_docs.publish(bad_day[1], [bad_day[0]])
    return bad_day


def test_results_are_kept_and_shown_in_data_docs(documented: tuple[Audit, Settings]) -> None:
    done, settings = documented
    kept = read_arrow(table_location(settings, "ops.metrics") / "test").to_pylist()
    assert len(kept) == len(done.findings)
    broken = {(row["table_name"], row["rule"]) for row in kept if not row["passed"]}
    assert broken == {(each.table, each.rule) for each in (*done.failures, *done.warnings)}
    assert data_docs.index(settings).exists()
    pages = [page.read_text() for page in data_docs.index(settings).parent.rglob("validations/**/*.html")]
    assert any("An order is placed, paid, packed, shipped, delivered or cancelled." in page for page in pages)


def test_suites_can_be_read_back_with_great_expectations(documented: tuple[Audit, Settings]) -> None:
    suite = data_docs.context(documented[1]).suites.get("gold.order_payments")
    descriptions = [each.description for each in suite.expectations]
    assert "The payment is at most one hour after the order. (paid_within_an_hour)" in descriptions
    assert "There is one row per order_id. (key_unique)" in descriptions


def test_nothing_is_sent_anywhere(documented: tuple[Audit, Settings]) -> None:
    assert data_docs.context(documented[1]).config.analytics_enabled is False
    pages = [page.read_text() for page in data_docs.index(documented[1]).parent.rglob("*.html")]
    assert len(pages) > 5
    assert not [page for page in pages if "dataContextId" in page]


def test_a_warning_lets_pass_and_what_is_not_given_is_not_asked(
    spark: SparkSession, fresh_home: Settings, console: Terminal
) -> None:
    frames = {
        "gold.order_payments": frame(spark, "gold.order_payments", paid_order("o1", payment_event_id=None, paid=False))
    }
    done = audit(frames, settings=fresh_home, name="test warning")
    assert [each.rule for each in done.warnings] == ["mostly_paid"]
    assert done.passed
    assert not [each for each in done.findings if each.rule in ("order_known", "payment_known")]
    done.show(console)
    assert "✓ test warning:" in console.export_text()
