"""Code versions of the batch layer: only tables whose code changed are computed again, and all that depend on them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import DataFrame

from batch import code_versions
from batch.code_versions import SILVER, current, needs_full_run, of_run, record, silver_parts, stale
from config.settings import Settings
from streaming import code_version
from streaming.bounded import OVERRIDES, trending
from streaming.job import jobs
from streaming.landing.contract import contracts


def another_trending(tables: Mapping[str, DataFrame]) -> DataFrame:
    return trending(tables).limit(1)


def test_every_job_that_follows_tables_has_a_version() -> None:
    assert set(current()) == {SILVER, *(job.writes[0] for job in jobs().values() if job.reads)}


def test_silver_depends_on_parsing_and_on_the_rebuild_but_on_no_override() -> None:
    parts = set(silver_parts())
    assert {"streaming.landing.parse.parse", "batch.records.exceptions", "batch.segments.write"} <= parts
    assert not {part for part in parts if part.startswith(code_versions.OVERRIDES)}


def test_other_code_of_one_table_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    before = current()
    monkeypatch.setitem(OVERRIDES, "trending", another_trending)
    assert stale(before, current()) == {"gold.trending"}
    assert not needs_full_run(before, current())


def test_what_depends_on_a_changed_table_has_changed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def parts(job: Any) -> dict[str, str]:
        return code_version.code_parts(job) | ({"changed": ""} if job.name == "clicks_enriched" else {})

    before = current()
    monkeypatch.setattr(code_versions, "code_parts", parts)
    depend = {name for job in jobs().values() if "silver.clicks_enriched" in job.reads for name in job.writes}
    assert {"gold.views_per_minute", "gold.trending"} <= depend
    assert stale(before, current()) == {"silver.clicks_enriched"} | depend


def test_a_rule_that_quarantines_changes_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    before = current()
    changed = tuple(replace(each, rules=each.rules[1:]) for each in contracts())
    monkeypatch.setattr(code_version, "contracts", lambda: changed)
    assert stale(before, current()) == set(before)
    assert needs_full_run(before, current())


def test_a_run_of_an_older_release_and_a_table_that_is_gone_take_a_full_run(fresh_home: Settings) -> None:
    now = current()
    record(fresh_home, "first", now)
    record(fresh_home, "first", {SILVER: "not recorded twice"})
    assert of_run(fresh_home, "first") == now
    assert not needs_full_run(of_run(fresh_home, "first"), now)
    assert needs_full_run(of_run(fresh_home, "older"), now)
    assert needs_full_run(now | {"gold.gone": "0"}, now)
