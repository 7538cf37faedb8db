"""`lakehouse dbt sync`: the committed files follow from config/tables, and from the features that a project has."""

import shutil
from pathlib import Path

import pytest
import yaml

from config.errors import LakehouseError
from config.settings import ROOT
from operations.dbt.sync import outdated, render, sync

SHIPMENTS = """
description: Shipments by hour, one row per hour.
key: [window_start]
final_at: window_end
columns:
  window_start: {type: timestamp, description: "start of the hour"}
  window_end: {type: timestamp, description: "end of the \\"hour\\""}
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the files that sync reads and writes."""
    for folder in ("models", "config/tables", "config/topics"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    shutil.copy(ROOT / "config" / "features.yaml", tmp_path / "config")
    if (ROOT / "batch").is_dir():
        (tmp_path / "batch").mkdir()
    return tmp_path


def names(files: list[Path], copy: Path) -> set[str]:
    return {file.relative_to(copy / "models").as_posix() for file in files}


def test_the_committed_files_are_up_to_date() -> None:
    assert outdated() == {}, "lakehouse dbt sync"


def test_an_edited_file_is_restored_and_a_second_sync_changes_nothing(copy: Path) -> None:
    edited = copy / "models" / "serving" / "kappa_sessions.sql"
    text = edited.read_text()
    edited.write_text(text + "limit 1\n")
    assert sync(copy) == [edited]
    assert edited.read_text() == text
    assert sync(copy) == []


def test_a_new_gold_table_is_served_and_a_removed_one_no_longer(copy: Path) -> None:
    new = copy / "config" / "tables" / "gold.parcels_of_this_test.yaml"
    new.write_text(SHIPMENTS)
    added = names(sync(copy), copy)
    assert {"serving/kappa_parcels_of_this_test.sql", "serving/kappa_parcels_of_this_test.yml"} <= added
    assert "staging/gold_generations/_gold_generations__sources.yml" in added
    twin = yaml.safe_load((copy / "models" / "serving" / "kappa_parcels_of_this_test.yml").read_text())["models"][0]
    assert [column["description"] for column in twin["columns"]] == ["start of the hour", 'end of the "hour"']
    new.unlink()
    assert names(sync(copy), copy) == added
    assert sync(copy) == []
    assert outdated(copy) == outdated() == {}


def test_without_the_batch_layer_there_is_no_lambda_answer(copy: Path) -> None:
    shutil.rmtree(copy / "batch", ignore_errors=True)
    found = render(copy)
    assert "serving/kappa_sessions.sql" in found
    assert not [name for name in found if "lambda" in name or "parity" in name or "comparable" in name]
    assert "staging/batch/_batch__sources.yml" not in found


def test_a_source_is_declared_because_a_model_reads_it(copy: Path) -> None:
    mart = copy / "models" / "marts" / "duplicates_by_day.sql"
    mart.write_text("select * from {{ source('silver', 'duplicates') }}\n")
    assert names(sync(copy), copy) == {"staging/silver/_silver__sources.yml"}
    declared = yaml.safe_load((copy / "models" / "staging" / "silver" / "_silver__sources.yml").read_text())
    assert "duplicates" in [table["name"] for table in declared["sources"][0]["tables"]]


@pytest.mark.parametrize(
    ("read", "problem"),
    [
        ("source('silver', 'clicsk')", "there is no table 'silver.clicsk'"),
        ("source('slver', 'clicks')", "there is no source 'slver'"),
    ],
)
def test_a_source_that_is_not_declared_is_an_error_that_names_the_model(copy: Path, read: str, problem: str) -> None:
    (copy / "models" / "marts" / "wrong.sql").write_text(f"select * from {{{{ {read} }}}}\n")
    with pytest.raises(LakehouseError, match=problem) as error:
        sync(copy)
    assert "wrong.sql" in error.value.problem
