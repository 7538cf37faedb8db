"""Metrics: the result of every audit is recorded."""

from datetime import UTC, datetime, timedelta

from config.settings import Settings
from expectations import metrics
from expectations.gate import Finding
from lake.location import table_location
from lake.tables import read_arrow


def test_an_audit_is_recorded_after_the_clock_has_stepped_back(fresh_home: Settings) -> None:
    now = datetime(2026, 1, 5, 12, tzinfo=UTC)
    finding = Finding("silver.clicks", "rule", "fail", "A rule.", 0, [], "")
    for checked_at in (now, now - timedelta(hours=1)):
        metrics.record(fresh_home, "check silver", checked_at, [finding])
    rows = read_arrow(table_location(fresh_home, metrics.TABLE) / "check").to_pylist()
    assert sorted(row["checked_at"] for row in rows) == [now - timedelta(hours=1), now]
