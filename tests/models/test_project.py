"""The dbt project: complete, described, and in step with what config/tables declares."""

import re
from typing import Any

import pytest
import yaml

from config.declarations import tables
from config.settings import ROOT

MODELS = ROOT / "models"
ARCHITECTURES = ["lambda", "kappa"]  # without feature batch: ARCHITECTURES = ["kappa"]
GOLD = {name.partition(".")[2]: table for name, table in tables().items() if table.layer == "gold"}


def declared() -> dict[str, dict[str, Any]]:
    """Read every model's YAML twin."""
    twins = [file for file in MODELS.glob("*/*.yml") if file.name != "sources.yml"]
    return {
        model["name"]: model | {"file": file} for file in twins for model in yaml.safe_load(file.read_text())["models"]
    }


def sources() -> dict[str, dict[str, Any]]:
    files = [yaml.safe_load(file.read_text()) for file in MODELS.glob("*/sources.yml")]
    return {source["name"]: source for file in files for source in file["sources"]}


def test_each_model_has_its_twin() -> None:
    assert {file.stem: file.parent for file in MODELS.glob("*/*.sql")} == {
        name: model["file"].parent for name, model in declared().items()
    }


def test_each_model_and_column_is_described_and_each_model_says_its_grain() -> None:
    for name, model in declared().items():
        assert re.search(r"one row per \w", model["description"]), name
        assert [column["name"] for column in model["columns"] if not column.get("description")] == [], name
    for source in sources().values():
        assert source["description"]
        for table in source["tables"]:
            assert re.search(r"one row per \w", table["description"]), table["name"]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_each_gold_table_is_served_under_the_contract_it_is_declared_by(architecture: str) -> None:
    models = declared()
    for name, table in GOLD.items():
        model = models[f"{architecture}_{name}"]
        assert {column["name"]: column["data_type"] for column in model["columns"]} == {
            column: declaration.type for column, declaration in table.columns.items()
        }
        assert model["data_tests"] == [{"unique_key": {"arguments": {"columns": table.key}}}]


def test_what_jobs_write_says_how_fresh_it_is() -> None:
    found = sources()
    (batches,) = [table for table in found["ops"]["tables"] if table["name"] == "batches"]
    for each in (*(source for name, source in found.items() if name != "ops"), batches):
        assert {"loaded_at_field", "loaded_at_query"} & each["config"].keys(), each["name"]
        assert each["config"]["freshness"]["warn_after"], each["name"]


def test_each_model_with_logic_has_a_unit_test() -> None:
    plain = {f"{architecture}_{name}" for architecture in ARCHITECTURES for name in GOLD}
    tested = {
        test["model"]
        for model in declared().values()
        for test in yaml.safe_load(model["file"].read_text()).get("unit_tests", [])
    }
    assert tested == {name for name in declared() if not name.startswith("stg_")} - plain
