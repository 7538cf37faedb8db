"""Keyed tables: of several rows of a key one wins, whatever the order and the batches in which they come."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import deltalake
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from config.declarations import Table, table_named, tables
from config.settings import Settings
from lake.batch import Batch
from lake.literals import literal, one_of
from lake.location import table_location
from lake.ordering import first_per_key
from lake.tables import arrow_schema, read_arrow
from streaming.job import job_named, jobs

MONDAY = datetime(2026, 1, 5, 23, 59, tzinfo=UTC)
TIMES = [MONDAY, MONDAY + timedelta(minutes=2), MONDAY + timedelta(days=3)]
PICKED = [name for name, job in jobs().items() if job.bounded.pick_first_by]


class Rows:
    """Stands for the frame of a micro-batch, already computed."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows

    def toArrow(self) -> pa.Table:
        return self.rows


def row(table: Table, drawn: dict[str, Any]) -> dict[str, Any]:
    """Make a row of a table, on the day on which its time is."""
    named = {column: drawn.get(column) for column in table.stored}
    return named | {"day": drawn[str(table.day_of)].date()}


def candidates(name: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Draw rows of few keys that a join can return: an order placed, paid or put into carts several times."""
    table = table_named(job_named(name).writes[0])
    ordered = [column for column, _ in job_named(name).bounded.pick_first_by]
    values = {
        column: st.sampled_from(TIMES) if table.columns[column].type == "timestamp" else st.sampled_from("a'")
        for column in dict.fromkeys([*table.key, str(table.day_of), *ordered])
    }
    drawn = st.lists(st.fixed_dictionaries(cast(Any, values)), min_size=1, max_size=8)
    return drawn.map(lambda rows: [row(table, each) for each in rows])


def written(home: Settings, name: str, batches: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Write micro-batches as a job does; return the rows of its table."""
    job = job_named(name)
    table = table_named(job.writes[0])
    path = table_location(home, table.name)
    deltalake.DeltaTable.create(str(path), arrow_schema(table), partition_by=table.partitioned_by)
    for number, rows in enumerate(batches):
        frame = cast(Any, Rows(pa.Table.from_pylist(rows, arrow_schema(table))))
        job.process(Batch(frame, name, number, 1, 1, home))
    return sorted(read_arrow(path).to_pylist(), key=repr)


@pytest.mark.parametrize("name", PICKED)
@hypothesis_settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_one_row_of_each_key_wins_in_any_order_and_any_batches(
    name: str, data: st.DataObject, settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rows = data.draw(candidates(name))
    order = data.draw(st.permutations(rows))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(rows)), max_size=3)) | {0, len(rows)})
    batches = [order[low:high] for low, high in pairwise(cuts)]
    home = settings.at(Path(tmp_path_factory.mktemp("keyed")))
    table = table_named(job_named(name).writes[0])
    whole = pa.Table.from_pylist(rows, arrow_schema(table))
    wanted = first_per_key(whole, table.key, job_named(name).bounded.pick_first_by).to_pylist()
    assert written(home, name, batches) == sorted(wanted, key=repr)


def test_a_row_that_wins_later_moves_to_its_own_day(fresh_home: Settings) -> None:
    table = table_named("gold.order_payments")
    first, again = (
        row(table, {"order_id": "o'1", "order_time": time, "order_event_id": name, "paid": False})
        for name, time in (("first", MONDAY), ("again", MONDAY + timedelta(days=1)))
    )
    assert written(fresh_home, "order_payments", [[again], [first], [again]]) == [first]


def test_every_table_that_is_not_pruned_by_its_key_says_which_row_wins() -> None:
    written_by = {job.writes[0]: job for job in jobs().values() if job.reads}
    gold = [table for table in tables().values() if table.layer == "gold"]
    moving = {table.name for table in gold if not table.key_fixes_partition}
    assert {"gold.conversions", "gold.order_payments"} <= moving
    assert all(written_by[name].bounded.pick_first_by for name in moving)


def test_a_table_of_days_names_the_time_of_its_days() -> None:
    for table in tables().values():
        if table.has_generations and table.partitioned_by:
            assert table.day_of and table.columns[table.day_of].type == "timestamp", table.name


def test_values_are_quoted_by_their_type() -> None:
    values = ["it's", "", 7, date(2026, 1, 5), True, None]
    assert [literal(value) for value in values] == ["'it''s'", "''", "7", "'2026-01-05'", "true", "null"]
    assert one_of("t.day", {date(2026, 1, 6), date(2026, 1, 5)}) == "t.day in ('2026-01-05', '2026-01-06')"
    assert one_of("t.day", {None}) == "(false or t.day is null)"
    with pytest.raises(TypeError, match="float has no literal"):
        literal(0.1)


@pytest.mark.parametrize("value", ["'", "') or true --", "\\", "é\x00", "\n", ""])
def test_a_quoted_value_finds_itself_and_nothing_else(tmp_path: Path, value: str) -> None:
    deltalake.write_deltalake(str(tmp_path), pa.table({"name": [value, "other"], "number": [1, 2]}))
    query = f"select number from t where {one_of('name', [value])}"
    found = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(tmp_path))).execute(query)
    assert pa.table(found)["number"].to_pylist() == [1]
