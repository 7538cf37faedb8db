"""Code versions: a checkpoint continues only with the code that began it, and only what it uses counts."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from config.declarations import Table, Topic, table_named, topics
from config.errors import LakehouseError
from config.settings import ROOT
from lake.location import Location
from streaming import code_version as module
from streaming.code_version import code_parts, code_version, ensure_same_code
from streaming.job import Job, job_named, jobs
from streaming.landing.contract import Contract, contracts
from streaming.windows.salting import Salt, Saltable

JOB = job_named("views_per_minute")
ANOTHER = "streaming.roles.aggregator.trending"


@pytest.fixture
def folder(tmp_path: Path) -> Location:
    return Location(str(tmp_path))


def test_the_same_code_continues(folder: Location) -> None:
    for _ in range(2):
        ensure_same_code(JOB, folder)


def test_a_new_version_asks_for_a_replay(folder: Location) -> None:
    ensure_same_code(JOB, folder)
    with pytest.raises(LakehouseError, match="version 2 now") as refused:
        ensure_same_code(replace(JOB, version=2), folder)
    assert "lakehouse replay run --jobs views_per_minute" in str(refused.value.hint)


def test_changed_code_without_a_new_version_is_refused_unless_allowed(folder: Location) -> None:
    ensure_same_code(replace(JOB, module=ANOTHER), folder)
    with pytest.raises(LakehouseError, match="has changed under its checkpoint") as refused:
        ensure_same_code(JOB, folder)
    assert f"{ANOTHER}.RANKS" in str(refused.value)
    assert "lakehouse stream run views_per_minute --allow-code-change" in str(refused.value.hint)
    ensure_same_code(JOB, folder, allow_code_change=True)
    ensure_same_code(JOB, folder)


def test_a_record_of_an_older_release_counts_as_changed(folder: Location) -> None:
    (folder / module.FILE).write(json.dumps({"version": 1, "code": "0" * 16, "source": "x = 1"}))
    with pytest.raises(LakehouseError, match="started by an older release"):
        ensure_same_code(JOB, folder)


def test_a_job_depends_on_the_helpers_that_it_uses_and_on_no_other_job() -> None:
    parts = code_parts(JOB)
    helpers = {"lake.tables.upsert", "streaming.windows.late.upsert_windows", "streaming.roles.enricher.attach_tier"}
    assert helpers | {"streaming.windows.salting.Salt", "table gold.views_per_minute"} <= set(parts)
    assert not {"lake.tables.upsert_first_per_key", "streaming.windows.late.refuse_unknown", f"{ANOTHER}.RANKS"} & set(
        parts
    )


def test_every_job_has_its_own_version() -> None:
    versions = {name: code_version(job) for name, job in jobs().items()}
    assert len(set(versions.values())) == len(versions)


def test_how_many_groups_a_job_is_salted_into_changes_nothing() -> None:
    assert isinstance(JOB.query.transform, Saltable)
    salted = replace(JOB, query=replace(JOB.query, transform=replace(JOB.query.transform, salt=Salt(4))))
    assert code_version(salted) == code_version(JOB)


def test_what_a_function_encloses_counts_though_no_name_leads_to_it() -> None:
    def through(function: Callable[..., object]) -> Job:
        return replace(JOB, process=partial(lambda batch, inner: inner(batch), inner=function))

    parts = set(code_parts(through(job_named("trending").process)))
    assert f"{ANOTHER}.ranked" in parts
    assert f"{ANOTHER}.ranked" not in code_parts(JOB)


@pytest.mark.parametrize("stop", [*module.INFRASTRUCTURE, *module.LANDING])
def test_every_name_at_which_the_graph_stops_exists(stop: str) -> None:
    path = ROOT.joinpath(*stop.split("."))
    parent, _, name = stop.rpartition(".")
    defined = ROOT.joinpath(*parent.split(".")).with_suffix(".py")
    in_module = defined.is_file() and f"def {name}(" in defined.read_text()
    assert path.is_dir() or path.with_suffix(".py").is_file() or in_module


def with_table(monkeypatch: pytest.MonkeyPatch, changed: Table) -> None:
    monkeypatch.setattr(module, "table_named", lambda name: changed if name == changed.name else table_named(name))


def with_column(name: str, column: str, **update: object) -> Table:
    table = table_named(name)
    like = next(iter(table.columns.values()))
    columns = table.columns | {column: table.columns.get(column, like).model_copy(update=update)}
    return table.model_copy(update={"columns": columns})


@pytest.mark.parametrize(
    ("changed", "counts"),
    [
        (with_column("gold.views_per_minute", "views", type="int"), True),
        (with_column("gold.views_per_minute", "new", source="new"), True),
        (with_column("gold.views_per_minute", "views", description="another text"), False),
        (with_column("silver.clicks_enriched", "dwell_ms", type="int"), True),
        (with_column("silver.clicks_enriched", "new", source="new"), False),
        (with_column("silver.users", "valid_from", type="date"), True),
        (with_column("gold.trending", "views", type="int"), False),
    ],
)
def test_a_declaration_counts_as_far_as_a_job_uses_it(
    changed: Table, counts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = code_version(JOB)
    with_table(monkeypatch, changed)
    assert (code_version(JOB) != before) == counts


def with_contract(monkeypatch: pytest.MonkeyPatch, topic: Topic | None = None, rule: str = "dwell_ms >= 0") -> None:
    changed = [
        replace(each, topic=topic or each.topic, rules=(replace(each.rules[0], expression=rule), *each.rules[1:]))
        if each.topic.name == "clicks"
        else each
        for each in contracts()
    ]
    monkeypatch.setattr(module, "contracts", lambda: tuple[Contract, ...](changed))


def test_a_quarantine_rule_counts_for_landing_and_not_for_the_jobs_that_follow_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    landing = job_named("landing")
    before = code_version(landing), code_version(JOB)
    with_contract(monkeypatch)
    assert (code_version(landing), code_version(JOB)) == before
    with_contract(monkeypatch, rule="dwell_ms >= 1")
    assert code_version(landing) != before[0]
    assert code_version(JOB) == before[1]


def test_the_schema_of_a_topic_counts_for_landing_but_not_its_retention(monkeypatch: pytest.MonkeyPatch) -> None:
    landing, clicks = job_named("landing"), topics()["clicks"]
    before = code_version(landing)
    with_contract(monkeypatch, clicks.model_copy(update={"retention": {}, "description": "another text"}))
    assert code_version(landing) == before
    required = clicks.model_copy(update={"events": clicks.events | {"required": ["event_id"]}})
    with_contract(monkeypatch, required)
    assert code_version(landing) != before
