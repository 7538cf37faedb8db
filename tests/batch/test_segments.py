"""Segments: the rows of a batch table that count are those of the run that a publication names for each day."""

from datetime import date

import deltalake
import pyarrow as pa

from batch import segments
from batch.segments import RUN, SEGMENT, WHOLE
from config.declarations import table_named
from config.settings import Settings

MONDAY, TUESDAY = date(2026, 1, 5), date(2026, 1, 6)
ROWS = pa.table(
    {
        "views": [1, 2, 3],
        SEGMENT: pa.array([MONDAY, MONDAY, TUESDAY], pa.date32()),
        RUN: ["first", "second", "first"],
    }
)


def test_of_a_day_that_was_computed_twice_one_run_counts() -> None:
    found = ROWS.filter(segments.rows_of({MONDAY: "second", TUESDAY: "first"}))
    assert found["views"].to_pylist() == [2, 3]
    assert ROWS.filter(segments.rows_of({})).num_rows == 0


def test_only_some_days_are_taken() -> None:
    named = {MONDAY: "second", TUESDAY: "first"}
    assert segments.only(named, None) == named
    assert segments.only(named, [TUESDAY, date(2026, 1, 7)]) == {TUESDAY: "first"}


def test_the_segments_of_a_run_are_those_it_has_rows_in(fresh_home: Settings) -> None:
    name = "gold.views_per_minute"
    assert segments.written(fresh_home, name, "first") == set()
    deltalake.write_deltalake(str(segments.path(fresh_home, name)), ROWS, partition_by=[SEGMENT, RUN])
    assert segments.written(fresh_home, name, "first") == {MONDAY, TUESDAY}
    assert segments.written(fresh_home, name, "second") == {MONDAY}
    assert segments.written(fresh_home, name, "third") == set()


def test_a_table_without_days_is_one_segment() -> None:
    assert segments.by_days(table_named("silver.clicks"))
    assert not segments.by_days(table_named("silver.users"))
    assert MONDAY > WHOLE
