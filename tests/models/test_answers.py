"""Every serving model and mart equals what an oracle works out from the raw records, row by row."""

from collections import Counter
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pyarrow as pa
import pytest
from gold import WAITING
from oracle import Oracle, from_rows

from config.declarations import table_named, tables
from streaming.batches import closed_until

GOLD = [name.partition(".")[2] for name in tables() if name.startswith("gold.")]
EXPECTED = Path(__file__).parent / "expected"
MARTS = sorted(file.stem for file in EXPECTED.glob("*.sql"))


class Wanted:
    """What must be there: the Kappa answer, the Lambda answer around the fence, and what follows from them."""

    def __init__(self, built: Any) -> None:
        self.built = built
        raw = [(*record[:5], record[6]) for record in built.records]
        self.all, self.published = Oracle(from_rows(raw)), Oracle(from_rows(raw[: built.published]))
        path = str(table_named("ops.fences").path(built.settings.warehouse))
        fences = deltalake.DeltaTable(path).to_pyarrow_table()
        self.fence = max(fences["complete_until"].to_pylist()).replace(tzinfo=None)

    def closed(self, name: str) -> datetime:
        found = closed_until(self.built.settings, name)
        assert found
        return found

    def kappa(self, name: str) -> pa.Table:
        until = self.closed(name) if f"gold.{name}" in WAITING else None
        return plain(self.all.table(f"gold.{name}", closed_until=until))

    def lambda_(self, name: str) -> pa.Table:
        """Take batch rows before the fence and stream rows after it."""
        stream, batch = self.kappa(name), plain(self.published.table(f"gold.{name}", late_counts=False))
        moment = table_named(f"gold.{name}").final_at
        if moment:
            query = f"from batch where {moment} < $1 union all by name from stream where {moment} >= $1"
        else:
            query = """
                from stream where status_time >= $1 union all by name
                from batch where order_id not in (select order_id from stream where status_time >= $1)"""
        with duckdb.connect() as sql:
            sql.register("stream", stream)
            sql.register("batch", batch)
            return sql.execute(query, [self.fence]).to_arrow_table()

    def mart(self, name: str) -> pa.Table:
        """Work a mart out from the Kappa answers and silver."""
        with duckdb.connect() as sql:
            for table in GOLD:
                sql.register(table, self.kappa(table))
            for table in ("clicks_enriched", "orders", "payments", "users"):
                sql.register(table.removesuffix("_enriched"), plain(self.all.table(f"silver.{table}")))
            final = min(self.closed(table) for table in ("views_per_minute", "conversions", "order_payments"))
            sql.execute("set variable final_until = $1::timestamp", [final.replace(tzinfo=None)])
            return sql.sql((EXPECTED / f"{name}.sql").read_text()).to_arrow_table()


@cache
def wanted(built: Any) -> Wanted:
    return Wanted(built)


def plain(table: pa.Table) -> pa.Table:
    """Leave the zone out of times: all are in UTC."""
    kinds = [pa.timestamp("us") if pa.types.is_timestamp(field.type) else field.type for field in table.schema]
    return table.cast(pa.schema(list(zip(table.column_names, kinds, strict=True))))


def rows(table: pa.Table, columns: list[str]) -> Counter[str]:
    return Counter(repr(tuple(row[column] for column in columns)) for row in plain(table).to_pylist())


def assert_equal(found: pa.Table, asked: pa.Table, ignoring: tuple[str, ...] = ()) -> None:
    columns = sorted(asked.column_names)
    assert columns == sorted(set(found.column_names) - set(ignoring))
    there, needed = rows(found, columns), rows(asked, columns)
    assert (list((needed - there).elements())[:3], list((there - needed).elements())[:3]) == ([], []), columns
    assert there


@pytest.mark.parametrize("name", GOLD)
def test_the_kappa_answer_is_the_streams(built: Any, name: str) -> None:
    assert_equal(built.answers[f"kappa_{name}"], wanted(built).kappa(name))


@pytest.mark.parametrize("name", GOLD)
def test_the_lambda_answer_is_batch_before_the_fence_and_stream_after_it(built: Any, name: str) -> None:
    assert_equal(built.answers[f"lambda_{name}"], wanted(built).lambda_(name))


def test_finality_is_what_the_jobs_recorded_and_for_lambda_the_fence(built: Any) -> None:
    closed = {name: wanted(built).closed(name).replace(tzinfo=None) for name in GOLD if name != "order_status"}
    merged = {name: max(until, wanted(built).fence) for name, until in closed.items()}
    for architecture, asked in (("kappa", closed), ("lambda", merged)):
        found = plain(built.answers[f"{architecture}_finality"]).to_pylist()
        assert {row["table_name"]: row["final_until"] for row in found} == asked


def test_parity_counts_the_final_rows_that_differ(built: Any) -> None:
    asked = {}
    for name in GOLD:
        table = table_named(f"gold.{name}")
        sides = []
        for answer in (wanted(built).lambda_(name), wanted(built).kappa(name)):
            with duckdb.connect() as sql:
                sql.register("answer", answer)
                until = wanted(built).closed(name).replace(tzinfo=None) if table.final_at else None
                final = f"where {table.final_at} < $1" if table.final_at else ""
                found: pa.Table = sql.execute(f"from answer {final}", [until] if until else []).to_arrow_table()
            sides.append({tuple(row[key] for key in table.key): row for row in found.to_pylist()})
        batch, stream = sides
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
    counted = built.answers["parity"].drop_columns(["final_until"]).to_pylist()
    assert {row.pop("table_name"): row for row in counted} == asked
    assert sum(row["differing_rows"] for row in asked.values()) > 0


@pytest.mark.parametrize("name", MARTS)
def test_a_mart_equals_what_follows_from_the_answers(built: Any, name: str) -> None:
    assert_equal(built.answers[name], wanted(built).mart(name), ignoring=("built_from",))


def test_every_mart_is_compared(built: Any) -> None:
    assert sorted(name for name, model in built.models.items() if model["schema"] == "marts") == MARTS
