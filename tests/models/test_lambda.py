"""The Lambda answers equal the oracle on both sides of the fence, and parity counts where they differ from Kappa's."""

import json
from datetime import datetime
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from oracle import Oracle, from_rows
from oracle.answers import tables as known

from batch import publications
from config.declarations import table_named, tables
from lake.location import table_location

GOLD = [name.partition(".")[2] for name in known() if name.startswith("gold.")]
MERGED = "from batch where {moment} < $1 union all by name from stream where {moment} >= $1"
# Its rows are never final: the latest change says on which side of the fence an order is.
MERGED_STATUS = """
from stream where status_time >= $1 union all by name
from batch where order_id not in (select order_id from stream where status_time >= $1)
"""
Rows = dict[tuple[Any, ...], dict[str, Any]]


@pytest.fixture(scope="module")
def fence(built: Any) -> datetime:
    return fence_of(built)


@pytest.fixture(scope="module")
def answers(built: Any, wanted: Any, fence: datetime) -> dict[str, pa.Table]:
    return expected(built, wanted, fence)


def fence_of(built: Any) -> datetime:
    """Read the fence of the served publication, without a zone."""
    served = publications.served_publication(built.settings)
    assert served
    rows = table_location(built.settings, "ops.fences").table().to_pyarrow_table().to_pylist()
    found: datetime
    (found,) = {row["complete_until"] for row in rows if row["run"] == served.run}
    return found.replace(tzinfo=None)


def expected(built: Any, wanted: Any, fence: datetime) -> dict[str, pa.Table]:
    """Work out the Lambda answers: for the batch layer no event is late."""
    published = Oracle(from_rows(wanted.raw[: built.published]))
    found = {}
    for name in GOLD:
        moment = table_named(f"gold.{name}").final_at
        with duckdb.connect() as sql:
            sql.register("stream", wanted.kappa(name))
            sql.register("batch", wanted.plain(published.table(f"gold.{name}", late_counts=False)))
            query = MERGED.format(moment=moment) if moment else MERGED_STATUS
            found[name] = sql.execute(query, [fence]).to_arrow_table()
    return found


def test_the_fence_is_at_an_awkward_place(wanted: Any, fence: datetime) -> None:
    for name in ("views_per_minute", "trending", "sessions"):
        start, end = ("session_start", "session_end") if name == "sessions" else ("window_start", "window_end")
        assert any(row[start] < fence < row[end] for row in wanted.kappa(name).to_pylist()), name


@pytest.mark.parametrize("name", GOLD)
def test_it_is_batch_before_the_fence_and_stream_after_it(
    built: Any, wanted: Any, answers: dict[str, pa.Table], name: str
) -> None:
    wanted.compare(built.answers[f"lambda_{name}"], answers[name])


def test_it_is_final_up_to_the_fence_too(built: Any, wanted: Any, fence: datetime) -> None:
    found = built.answers["lambda_finality"].to_pylist()
    assert {row["table_name"]: row["closed_until"] for row in found} == {
        name: max(wanted.closed(name), fence) for name in GOLD if name != "order_status"
    }


def test_parity_counts_the_final_rows_that_differ(built: Any, wanted: Any, answers: dict[str, pa.Table]) -> None:
    asked = {}
    for name in GOLD:
        batch, stream = (final(wanted, name, answer) for answer in (answers[name], wanted.kappa(name)))
        both = batch.keys() & stream.keys()
        equal = sum(batch[key] == stream[key] for key in both)
        asked[name] = {
            "lambda_rows": len(batch),
            "kappa_rows": len(stream),
            "equal_rows": equal,
            "lambda_only_rows": len(batch.keys() - stream.keys()),
            "kappa_only_rows": len(stream.keys() - batch.keys()),
            "changed_rows": len(both) - equal,
            "differing_rows": len(batch.keys() | stream.keys()) - equal,
        }
    counted = built.answers["parity"].drop_columns(["closed_until"]).to_pylist()
    assert {row.pop("table_name"): row for row in counted if row["table_name"] in GOLD} == asked
    assert sum(row["differing_rows"] for row in asked.values()) > 0


def test_every_gold_table_is_compared(built: Any) -> None:
    found = built.answers["comparable_tables"].to_pylist()
    assert {row["table_name"]: row["never_final"] for row in found} == {
        table.name.partition(".")[2]: not table.final_at for table in tables().values() if table.layer == "gold"
    }


def test_a_differing_row_is_named_by_its_key(built: Any) -> None:
    rows = built.answers["parity_rows"].to_pylist()
    assert {row["table_name"] for row in rows} == set(GOLD)
    revenue = next(row for row in rows if row["table_name"] == "revenue_per_hour")
    assert json.loads(revenue["row_key"]).keys() == set(table_named("gold.revenue_per_hour").key)


def final(wanted: Any, name: str, answer: pa.Table) -> Rows:
    """Keep the rows that Kappa calls final, by their keys; of a table that is never final all."""
    table = table_named(f"gold.{name}")
    rows = answer
    if table.final_at:
        with duckdb.connect() as sql:
            sql.register("answer", answer)
            query = f"from answer where {table.final_at} < $1"
            rows = sql.execute(query, [wanted.closed(name)]).to_arrow_table()
    return {tuple(row[key] for key in table.key): row for row in rows.to_pylist()}
