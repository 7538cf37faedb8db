"""The dbt project: described, tested and owned, as dbt-project-evaluator and a dbt reviewer expect."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from config.declarations import tables
from config.settings import ROOT, Settings
from operations.dbt.run import environment, run
from operations.dbt.sync import WRITTEN_BY_SYNC

MODELS = ROOT / "models"
ARCHITECTURES = ["lambda", "kappa"] if (ROOT / "batch").is_dir() else ["kappa"]
GOLD = {name.partition(".")[2]: table for name, table in tables().items() if table.layer == "gold"}
PRIMARY_KEY = "unique_combination_of_columns"
Nodes = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def parsed(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What dbt makes of the project for the target `dev`, without a connection."""
    own = settings.at(tmp_path_factory.mktemp("parsed"))
    with pytest.MonkeyPatch.context() as environ:
        for name, value in environment(own).items():
            environ.setenv(name, value)
        environ.setenv("DBT_DEVELOPER", "anna")
        assert run(own, ["--quiet", "parse", "--target", "dev"]) == 0
    found: dict[str, Any] = json.loads((own.home / "reports" / "dbt" / "manifest.json").read_text())
    return found


@pytest.fixture(scope="module")
def models(parsed: dict[str, Any]) -> Nodes:
    return {node["name"]: node for node in parsed["nodes"].values() if node["resource_type"] == "model"}


def twins() -> dict[str, Path]:
    """Find every model's YAML file; files that begin with an underscore declare other things."""
    files = [file for file in MODELS.glob("*/**/*.yml") if not file.name.startswith("_")]
    return {model["name"]: file for file in files for model in yaml.safe_load(file.read_text())["models"]}


def data_tests(parsed: dict[str, Any], model: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        node["test_metadata"]
        for node in parsed["nodes"].values()
        if node["resource_type"] == "test" and node["attached_node"] == model["unique_id"]
    ]


def test_each_model_has_its_twin() -> None:
    assert {file.stem: file.parent for file in MODELS.rglob("*.sql")} == {
        name: file.parent for name, file in twins().items()
    }
    assert [name for name, file in twins().items() if file.stem != name] == []


def test_each_model_and_column_is_described_and_each_model_states_its_grain(
    models: Nodes, parsed: dict[str, Any]
) -> None:
    for model in models.values():
        assert re.search(r"one row per \w", model["description"]), model["name"]
        undescribed = [name for name, column in model["columns"].items() if not column["description"]]
        assert undescribed == [], model["name"]
    for source in parsed["sources"].values():
        assert source["source_description"]
        assert re.search(r"one row per \w", source["description"]), source["name"]


def test_each_model_has_a_test_of_its_primary_key(models: Nodes, parsed: dict[str, Any]) -> None:
    for model in models.values():
        found = data_tests(parsed, model)
        columns = Counter(test["kwargs"]["column_name"] for test in found if test["name"] in ("unique", "not_null"))
        assert PRIMARY_KEY in [test["name"] for test in found] or 2 in columns.values(), model["name"]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_each_gold_table_is_served_under_the_contract_it_is_declared_by(
    models: Nodes, parsed: dict[str, Any], architecture: str
) -> None:
    for name, table in GOLD.items():
        model = models[f"{architecture}_{name}"]
        assert {column: declared["data_type"] for column, declared in model["columns"].items()} == {
            column: declaration.type for column, declaration in table.columns.items()
        }
        (key,) = [test for test in data_tests(parsed, model) if test["name"] == PRIMARY_KEY]
        assert key["kwargs"]["combination_of_columns"] == table.key


def test_what_people_read_is_public_and_under_an_enforced_contract(models: Nodes, parsed: dict[str, Any]) -> None:
    for model in models.values():
        if model["config"]["schema"] != "staging":
            assert (model["access"], model["contract"]["enforced"]) == ("public", True), model["name"]
    for exposure in parsed["exposures"].values():
        assert exposure["owner"]["email"]
        read = [parsed["nodes"][name] for name in exposure["depends_on"]["nodes"]]
        assert read
        assert {model["access"] for model in read} == {"public"}, exposure["name"]


def test_each_model_belongs_to_a_group_with_an_owner(models: Nodes, parsed: dict[str, Any]) -> None:
    owners = {group["name"]: group["owner"]["email"] for group in parsed["groups"].values()}
    assert all(owners.values())
    assert {model["group"] for model in models.values()} == owners.keys()


def test_each_source_is_read_and_has_its_folder(parsed: dict[str, Any]) -> None:
    read = {name for node in parsed["nodes"].values() for name in node.get("depends_on", {}).get("nodes", [])}
    for source in parsed["sources"].values():
        name = source["source_name"]
        assert source["unique_id"] in read, source["unique_id"]
        assert source["original_file_path"] == f"models/staging/{name}/_{name}__sources.yml"


def test_each_staging_model_reads_one_source_and_lies_in_its_folder(models: Nodes, parsed: dict[str, Any]) -> None:
    for model in models.values():
        if model["name"].startswith("stg_"):
            (source,) = (parsed["sources"][name] for name in model["depends_on"]["nodes"])
            assert Path(model["original_file_path"]).parent.name == source["source_name"]


def test_what_jobs_write_states_how_fresh_it_must_be(parsed: dict[str, Any]) -> None:
    sources = {f"{source['source_name']}.{source['name']}": source for source in parsed["sources"].values()}
    fresh = {
        name
        for name, source in sources.items()
        if source["loaded_at_field"] or source["loaded_at_query"]
        if source["freshness"] and source["freshness"]["warn_after"]["count"]
    }
    assert {name for name in sources if name.startswith(("silver.", "gold_generations."))} | {"ops.batches"} == fresh


def test_each_model_with_logic_has_a_unit_test(models: Nodes, parsed: dict[str, Any]) -> None:
    tested = {test["model"] for test in parsed["unit_tests"].values()}
    by_hand = {name for name, model in models.items() if WRITTEN_BY_SYNC not in model["raw_code"]}
    assert {name for name in by_hand if not name.startswith("stg_")} <= tested
    written = {f"{architecture}_order_status" for architecture in ARCHITECTURES}
    assert written <= tested, "a unit test shows what the files of sync do"


def test_a_developer_has_schemas_of_their_own_on_a_shared_catalog(models: Nodes) -> None:
    assert {model["schema"] for model in models.values()} == {"anna_staging", "anna_serving", "anna_marts"}
