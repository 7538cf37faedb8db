"""Start: how a job began to read its inputs is stored, so that an interrupted start is repeated as it began."""

from datetime import UTC, datetime

import pytest

from config.errors import LakehouseError
from config.settings import Settings
from lake.location import storage
from streaming import start
from streaming.start import Start


def test_a_start_is_read_as_it_was_saved(fresh_home: Settings) -> None:
    folder = storage(fresh_home) / "checkpoints" / "g1" / "sessions"
    assert start.load(folder, 1) is None
    tail = Start(
        history="computed",
        final_before=datetime(2026, 1, 5, 12, 0, 0, 1000, tzinfo=UTC),
        tail_from=datetime(2026, 1, 5, 11, tzinfo=UTC),
    )
    start.save(folder, 1, tail)
    streamed = Start({"silver.clicks": 3})
    start.save(folder, 2, streamed)
    assert start.load(folder, 1) == tail
    assert start.load(folder, 2) == streamed
    assert [each.interrupted for each in (tail, streamed)] == [True, False]


def test_a_damaged_record_names_the_command_that_starts_over(fresh_home: Settings) -> None:
    folder = storage(fresh_home) / "checkpoints" / "g1" / "sessions"
    (folder / "e1.history.json").write("{")
    with pytest.raises(LakehouseError) as damaged:
        start.load(folder, 1)
    assert "lakehouse stream reset sessions" in damaged.value.hint
