"""The Kappa answers and the marts equal what an oracle works out from the raw records, row by row."""

from pathlib import Path
from typing import Any

import duckdb
import pytest
from oracle.answers import tables as known

GOLD = [name.partition(".")[2] for name in known() if name.startswith("gold.")]
EXPECTED = Path(__file__).parent / "expected"
MARTS = sorted(file.stem for file in EXPECTED.glob("*.sql"))


@pytest.mark.parametrize("name", GOLD)
def test_the_kappa_answer_is_the_streams(built: Any, wanted: Any, name: str) -> None:
    wanted.compare(built.answers[f"kappa_{name}"], wanted.kappa(name))


def test_it_is_final_as_far_as_the_jobs_recorded(built: Any, wanted: Any) -> None:
    found = built.answers["kappa_finality"].to_pylist()
    assert {row["table_name"]: row["closed_until"] for row in found} == {
        name: wanted.closed(name) for name in GOLD if name != "order_status"
    }


@pytest.mark.parametrize("name", MARTS)
def test_a_mart_is_what_follows_from_the_answers(built: Any, wanted: Any, name: str) -> None:
    with duckdb.connect() as sql:
        for table in GOLD:
            sql.register(table, wanted.kappa(table))
        for table in ("clicks_enriched", "orders", "payments", "users"):
            sql.register(table.removesuffix("_enriched"), wanted.silver(table))
        closed_until = min(wanted.closed(table) for table in ("views_per_minute", "conversions", "order_payments"))
        sql.execute("set variable closed_until = $1::timestamp", [closed_until])
        asked = sql.sql((EXPECTED / f"{name}.sql").read_text()).to_arrow_table()
    wanted.compare(built.answers[name], asked, ignoring=("built_from",))


def test_every_mart_is_compared_or_has_a_unit_test(built: Any) -> None:
    marts = {name for name, model in built.models.items() if model["schema"] == "marts"}
    assert set(MARTS) <= marts
    assert marts - set(MARTS) <= {test["model"] for test in built.manifest["unit_tests"].values()}
