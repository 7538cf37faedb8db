"""Great Expectations in the home: a project that `gx` opens, with suites, results, checkpoints, and Data Docs.

Results are built from the counts of an audit; nothing is counted twice. The checkpoints, one per layer, count by
themselves: they read the served tables from their folders, so Great Expectations runs them without this project.
"""

import re
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import great_expectations as gx
import yaml
from great_expectations.checkpoint import UpdateDataDocsAction
from great_expectations.core import RunIdentifier
from great_expectations.core.batch_definition import BatchDefinition
from great_expectations.core.validation_definition import ValidationDefinition
from great_expectations.data_context.types.resource_identifiers import (
    ExpectationSuiteIdentifier,
    ValidationResultIdentifier,
)

from config.declarations import tables
from config.settings import Settings
from config.table_rules import LEDGER, view
from expectations.gate import LEDGER_COLUMNS, Audit
from expectations.ledger_snapshot import live_generation
from expectations.suites import Relation, result, suite
from lake import generations, ledger
from lake.ledger import LANDING, REDRIVE
from lake.location import table_location, warehouse

SITE = "data-docs"
SOURCE = "lakehouse"
WHOLE = "whole table"
RESULTS_LISTED = 200
_BEACON = re.compile(r"<img\b[^>]*dataContextId=[^>]*>")
_STORES = {
    "expectations_store": ("ExpectationsStore", "expectations"),
    "validation_results_store": ("ValidationResultsStore", "uncommitted/validations"),
    "validation_definition_store": ("ValidationDefinitionStore", "validation_definitions"),
    "checkpoint_store": ("CheckpointStore", "checkpoints"),
}


def project(settings: Settings) -> Path:
    """Return the folder to open with `gx.get_context(project_root_dir=…)`."""
    return settings.home / "reports" / "great-expectations"


def context(settings: Settings) -> Any:
    """Open the Great Expectations project of this home, with analytics off."""
    file = project(settings) / "gx" / "great_expectations.yml"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml.safe_dump(_configuration(), sort_keys=False))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Warning. An existing")  # it adds its other folders beside the file
        return gx.get_context(mode="file", project_root_dir=project(settings))


def _configuration() -> dict[str, Any]:
    return {
        "config_version": 4.0,
        "analytics_enabled": False,
        "stores": {
            name: {"class_name": kind, "store_backend": _files(folder)} for name, (kind, folder) in _STORES.items()
        },
        "expectations_store_name": "expectations_store",
        "validation_results_store_name": "validation_results_store",
        "checkpoint_store_name": "checkpoint_store",
        "data_docs_sites": {
            SITE: {
                "class_name": "SiteBuilder",
                "show_how_to_buttons": False,
                "store_backend": _files(f"../../{SITE}"),
                "site_index_builder": {
                    "class_name": "DefaultSiteIndexBuilder",
                    "validation_results_limit": RESULTS_LISTED,
                },
            }
        },
        "progress_bars": {"globally": False},
        "fluent_datasources": {},
    }


def _files(folder: str) -> dict[str, str]:
    return {"class_name": "TupleFilesystemStoreBackend", "base_directory": folder}


def publish(settings: Settings, audits: Sequence[Audit]) -> None:
    """Write the suites and results of audits and add them to Data Docs; write a checkpoint for each layer of tables."""
    gx_project, began = context(settings), time.time()
    paths = _paths(settings)
    relation = _relation(settings, paths)
    written: list[Any] = []
    for audit in audits:
        suites = {
            name: gx_project.suites.add_or_update(suite(name, [each.rule for each in counted], relation))
            for name, counted in audit.counted.items()
        }
        for name, expected in suites.items():
            written += _store_result(gx_project, audit, name, expected)
        _write_checkpoint(
            gx_project,
            audit.name.split()[-1],
            {name: suites[name] for name in suites if name in paths},
            settings,
            paths,
        )
    gx_project.build_data_docs(resource_identifiers=written)
    for page in index(settings).parent.rglob("*.html"):
        if page.stat().st_mtime >= began - 1:
            # A tracking image: its URL would report the project to a remote server whenever the page is opened.
            page.write_text(_BEACON.sub("Great Expectations", page.read_text()))


def _store_result(gx_project: Any, audit: Audit, name: str, expected: Any) -> list[Any]:
    """Store the validation result of a table; return the identifiers of the result and its suite."""
    found = result(expected, audit.counted[name], {"counted_by": "lakehouse"})
    run = RunIdentifier(audit.name, audit.checked_at)
    found.meta |= {
        "run_id": run,
        "validation_time": run.run_time,
        "active_batch_definition": {
            "datasource_name": SOURCE,
            "data_connector_name": "fluent",
            "data_asset_name": name,
            "batch_identifiers": {},
        },
    }
    of_suite = ExpectationSuiteIdentifier(name=name)
    identifier = ValidationResultIdentifier(of_suite, run, f"{SOURCE}-{name}")
    gx_project.validation_results_store.store_validation_results(found, identifier, of_suite)
    return [identifier, of_suite]


def _write_checkpoint(
    gx_project: Any, name: str, suites: Mapping[str, Any], settings: Settings, paths: Mapping[str, str]
) -> None:
    """Write a checkpoint that validates served tables where they are stored."""
    if not suites:
        return
    definitions = [
        gx_project.validation_definitions.add_or_update(
            ValidationDefinition(name=table, data=_stored(gx_project, settings, table, paths[table]), suite=expected)
        )
        for table, expected in suites.items()
    ]
    actions = [UpdateDataDocsAction(name="update Data Docs", site_names=[SITE])]
    gx_project.checkpoints.add_or_update(gx.Checkpoint(name=name, validation_definitions=definitions, actions=actions))


def _stored(gx_project: Any, settings: Settings, table: str, path: str) -> BatchDefinition[Any]:
    """Declare the folder of a table; a table that is served from another folder now is declared again."""
    if SOURCE in gx_project.data_sources.all():
        source = gx_project.data_sources.get(SOURCE)
    else:
        root = str(warehouse(settings))
        source = gx_project.data_sources.add_spark_filesystem(SOURCE, base_directory=root, persist=False)
    if table in source.get_asset_names():
        asset = source.get_asset(table)
        if str(asset.data_directory) == path:
            return asset.get_batch_definition(WHOLE)
        source.delete_asset(table)
    asset = source.add_directory_delta_asset(table, data_directory=path)
    return asset.add_batch_definition_whole_directory(WHOLE)


def _paths(settings: Settings) -> dict[str, str]:
    """Return the folder of each served table."""
    live = generations.live(settings)
    found = {name: table_location(settings, name, live.get(name, generations.FIRST)) for name in tables()}
    return {name: str(location) for name, location in found.items() if location.is_table()}


def _relation(settings: Settings, paths: Mapping[str, str]) -> Relation:
    """Refer to tables by their folders, and to the ledger by what it counts now."""
    entries = ledger.entries(settings, [LANDING, REDRIVE])
    counts = ledger.by_partition([row for row in entries if row["generation"] == live_generation(settings)])
    values = [
        f"('{topic}', {partition}, {', '.join(map(str, terms.values()))})"
        for (topic, partition), terms in counts.items()
    ]
    columns = ", ".join(column.split()[0] for column in LEDGER_COLUMNS.split(", "))

    def relation(name: str) -> str:
        if name == LEDGER and values:
            return f"(select * from values {', '.join(values)} as ledger({columns}))"  # noqa: S608
        return f"delta.`{paths[name]}`" if name in paths else view(name)

    return relation


def index(settings: Settings) -> Path:
    """Return the path of the index page."""
    return settings.home / "reports" / SITE / "index.html"
