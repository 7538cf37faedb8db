"""Asking the tables: by their declared names, with every mistake explained."""

from collections.abc import Iterator
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from config.errors import LakehouseError
from config.settings import Settings, load_settings
from config.terminal import Terminal
from lake.location import table_location
from operations.query import list_tables, show


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """A home, in a path with a blank and a quote, with three rows of one table and two parts of another."""
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path / "Ann's lake"))
    settings = load_settings()
    orders = pa.table({"order_id": ["o1", "o2", "[bold]o3"], "quantity": [1, 2, 3]})
    deltalake.write_deltalake(str(table_location(settings, "silver.orders")), orders)
    for job in ("one", "two"):
        ledger = table_location(settings, "ops.ledger") / job
        deltalake.write_deltalake(str(ledger), pa.table({"job": [job], "input": [10]}))
    yield settings
    for layer in ("silver", "ops"):
        spark.sql(f"drop database if exists {layer} cascade")


def asked(settings: Settings, query: str, console: Terminal, rows: int = 50) -> str:
    show(settings, query, rows, console)
    return console.export_text()


def test_a_table_is_found_by_its_name(lake: Settings, console: Terminal) -> None:
    output = asked(lake, "select sum(quantity) as pieces from silver.orders", console)
    assert "pieces" in output
    assert "6" in output


def test_values_are_shown_as_they_are(lake: Settings, console: Terminal) -> None:
    query = "select order_id, '[/red]' as `[b]`, cast('ab' as binary) as c, null as d from silver.orders"
    output = asked(lake, query, console)
    assert "[b]" in output
    assert "[bold]o3" in output
    assert "[/red]" in output
    assert " ab " in output


def test_parts_written_by_several_jobs_are_one_table(lake: Settings, console: Terminal) -> None:
    assert "20" in asked(lake, "select sum(input) from ops.ledger", console)


def test_only_so_many_rows_are_shown_and_the_rest_is_mentioned(lake: Settings, console: Terminal) -> None:
    query = "select quantity + 100 from silver.orders order by 1"
    output = asked(lake, query, console, rows=2)
    assert "102" in output
    assert "103" not in output
    assert "more than 2 rows" in output
    assert "more than" not in asked(lake, query, console, rows=3)


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("select * from silver.ordres", "ordres"),
        ("select * from silver.payments", "payments"),
        ("select nothing from silver.orders", "nothing"),
        ("selec 1", "selec"),
        ("select 1/0", "DIVIDE_BY_ZERO"),
        ("select cast('a' as int)", "CAST_INVALID_INPUT"),
    ],
)
def test_a_mistake_in_a_query_is_a_message(lake: Settings, console: Terminal, query: str, what: str) -> None:
    with pytest.raises(LakehouseError, match=what) as error:
        show(lake, query, 50, console)
    assert "at org.apache.spark" not in str(error.value)
    assert "lakehouse sql" in error.value.hint


def test_the_tables_that_exist_are_listed_with_their_rows(lake: Settings, console: Terminal) -> None:
    list_tables(lake, console)
    output = console.export_text()
    assert "silver.orders" in output
    assert "silver.payments" not in output
    (row,) = [line for line in output.splitlines() if "silver.orders" in line]
    assert " 3 " in row
