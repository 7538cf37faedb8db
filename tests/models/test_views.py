"""Serving views stay in place while dbt runs; a changed one is recreated, and complete days of a mart are kept."""

import shutil
from typing import Any

import deltalake
import pyarrow as pa

from lake import generations
from lake.location import table_location, warehouse


def created(built: Any) -> dict[str, str]:
    """Return when each serving view was created."""
    views = [f"serving.{name}" for name, model in built.models.items() if model["schema"] == "serving"]
    found = {}
    for view in views:
        rows = built.process.sql(f"describe table extended {view}").to_pylist()
        (found[view],) = (row["data_type"] for row in rows if row["col_name"] == "Created Time")
    return found


def count(built: Any, view: str) -> int:
    (found,) = built.process.sql(f"select count(*) as n from {view}")["n"].to_pylist()
    return int(found)


def test_a_view_that_is_unchanged_is_left_alone_and_a_changed_one_is_recreated(built: Any) -> None:
    sessions, before = built.answers["kappa_sessions"].num_rows, created(built)
    built.process.dbt("run", "--select", "kappa_sessions", "--empty")
    assert count(built, "serving.kappa_sessions") == 0
    built.process.dbt("run", "--select", "serving")
    assert count(built, "serving.kappa_sessions") == sessions
    after = created(built)
    assert {view for view in before if before[view] != after[view]} == {"serving.kappa_sessions"}


def copy_generation(built: Any, name: str) -> deltalake.DeltaTable:
    """Copy a table's first generation to its second."""
    first, second = (table_location(built.settings, name, number) for number in (1, 2))
    shutil.copytree(str(first), str(second))
    return second.table()


def funnel(built: Any) -> tuple[deltalake.DeltaTable, dict[tuple[Any, str], dict[str, Any]]]:
    table = (warehouse(built.settings) / "marts.db" / "conversion_funnel").table()
    rows: pa.Table = table.to_pyarrow_table()
    return table, {(row["day"], row["tier"]): row for row in rows.to_pylist()}


def test_complete_days_are_kept_until_history_is_rebuilt(built: Any) -> None:
    built.answers  # noqa: B018 - they are read once, before this test changes what they show
    table, before = funnel(built)
    complete = {key for key, row in before.items() if row["complete"]}
    assert 0 < len(complete) < len(before)
    table.update(updates={"viewers": "-1"})

    built.process.dbt("run", "--select", "conversion_funnel")
    table, after = funnel(built)
    assert table.history(1)[0]["operation"] == "MERGE"
    assert {key for key, row in after.items() if row["viewers"] == -1} == complete
    assert {key: row for key, row in after.items() if key not in complete} == {
        key: row for key, row in before.items() if key not in complete
    }

    copy_generation(built, "gold.sessions")
    generations.switch(built.settings, {"gold.sessions": 2}, "promote")
    built.process.dbt("run", "--select", "conversion_funnel")
    _, whole = funnel(built)
    assert {row.pop("built_from") for row in whole.values()} == {"kappa 1"}
    assert whole == {key: {name: row[name] for name in row if name != "built_from"} for key, row in before.items()}


def test_the_kappa_answer_is_that_of_the_served_generation(built: Any) -> None:
    rows = built.answers["kappa_trending"].num_rows
    copy_generation(built, "gold.trending").delete("rank > 1")
    first = count(built, "serving.kappa_trending where rank = 1")
    assert (count(built, "serving.kappa_trending"), 0 < first < rows) == (rows, True)
    served = generations.live(built.settings)
    generations.switch(built.settings, served | {"gold.trending": 2}, "promote")
    assert count(built, "serving.kappa_trending") == first, "no view was created again"
    generations.switch(built.settings, served, "rollback")
    assert count(built, "serving.kappa_trending") == rows
