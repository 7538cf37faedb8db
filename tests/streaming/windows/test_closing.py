"""Closing: what is open becomes final on request, whatever the machine's clock says."""

import time
from datetime import UTC, datetime, timedelta, tzinfo

import pytest
from gold import catch_up
from handmade import NOON, Lake, Log, click

from lake import batch_log
from lake.location import table_location
from streaming.job import job_named
from streaming.windows import closing
from streaming.windows.closing import close


class SteppedBack(datetime):
    """A clock that was set back to 1990."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        """Return a time before every write of the test."""
        return datetime(1990, 1, 1, tzinfo=tz or UTC)


def test_after_the_clock_has_stepped_back_a_closing_is_still_written(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions, log = job_named("sessions"), Log()
    closed, versions, written = [], [], []
    for hour in (0, 3, 6):
        first = len(log.records)
        log.send(click(f"e{hour}", NOON + timedelta(hours=hour)))
        lake.land(log.records[first:])
        catch_up(lake, ["sessions"])
        closed.append(close(sessions, lake.settings, lake.spark))
        table = table_location(lake.settings, "gold.sessions").table()
        versions.append(table.transaction_version("sessions/g1/e1/close"))
        written.append(table.to_pyarrow_table().num_rows)
        monkeypatch.setattr(time, "time", lambda: 0.0)
        monkeypatch.setattr(time, "time_ns", lambda: 0)
        for module in (closing, batch_log):
            monkeypatch.setattr(module, "datetime", SteppedBack)
    assert versions == [1, 2, 3]
    assert written == [1, 2, 3]
    assert closed == sorted(set(closed), key=str)
    assert batch_log.closed_until(lake.settings, "sessions") == closed[-1]
