"""Tracing, without Spark: the condition that a trace puts on a batch table selects the rows that are served."""

from datetime import date

import deltalake
import pyarrow as pa

from batch import tracing
from batch.publications import publish
from batch.segments import RUN, SEGMENT, path
from config.settings import Settings

MONDAY, TUESDAY = date(2026, 1, 5), date(2026, 1, 6)
FIRST, SECOND = "20260105T120000000000", "20260106T120000000000"
SESSIONS = "gold.sessions"


def test_without_a_publication_there_is_nothing_to_trace(fresh_home: Settings) -> None:
    assert tracing.served_rows(fresh_home) == {}


def test_each_day_is_traced_in_the_rows_of_the_run_that_is_published(fresh_home: Settings) -> None:
    days = pa.array([MONDAY, MONDAY, TUESDAY, TUESDAY], pa.date32())
    rows = pa.table({"n": [1, 2, 3, 4], SEGMENT: days, RUN: [FIRST, SECOND, FIRST, SECOND]})
    deltalake.write_deltalake(str(path(fresh_home, SESSIONS)), rows, partition_by=[SEGMENT, RUN])
    publish(fresh_home, SECOND, {SESSIONS: {MONDAY: SECOND, TUESDAY: FIRST}})
    location, served = tracing.served_rows(fresh_home)[SESSIONS]
    query = f"select n from r where {served} order by n"
    found = deltalake.QueryBuilder().register("r", location.table()).execute(query)
    assert pa.table(found)["n"].to_pylist() == [2, 3]
