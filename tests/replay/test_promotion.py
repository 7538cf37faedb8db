"""Promotion refuses a generation unless everything that was verified still holds; no test here starts Spark."""

import json
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import deltalake
import pytest

from config.declarations import table_named
from config.errors import LakehouseError
from config.settings import Settings
from expectations.gate import Audit, Finding
from lake import batch_log, generations
from lake.batch import Batch
from lake.location import table_location
from lake.tables import arrow_schema
from operations.demo.logic import job as another_job
from replay import manifest, promotion
from replay import run as running
from replay.checks import refuse_unfit, state_of
from replay.manifest import Replay
from replay.plan import plan
from streaming.job import job_named

NAME = "views_per_minute"
VIEWS, CLICKS = "gold.views_per_minute", "silver.clicks_enriched"
BROKEN = Finding(VIEWS, "key_unique", "fail", "The key is unique.", 1, [], "lakehouse sql …")
SPARK: Any = None  # what is refused is refused before Spark is used


def nothing() -> None:
    """Refresh no view."""


@pytest.fixture(autouse=True)
def gate(monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    """Stand for the quality gate, which needs Spark; what a test appends is what it finds."""
    findings: list[Finding] = []
    monkeypatch.setattr(promotion, "measured", lambda *_: nullcontext())
    monkeypatch.setattr(promotion, "record_cost", lambda *_: None)
    monkeypatch.setattr(promotion, "audited", lambda *_: Audit("replay g2", findings))
    return findings


@pytest.fixture
def built(fresh_home: Settings) -> Replay:
    """A replay of one job that is verified: its table, its manifest and its certificate."""
    commit(fresh_home, CLICKS)
    commit(fresh_home, VIEWS)
    made = replace(manifest.new(fresh_home, [job_named(NAME)], "kafka", "earliest"), state="verified")
    commit(fresh_home, VIEWS, made.generation)
    manifest.save(fresh_home, made)
    certify(fresh_home, made)
    return made


def certify(settings: Settings, replay: Replay, **values: Any) -> None:
    """Write a certificate of the tables as they are."""
    audit = {"rules": 1, "failures": []}
    proof = {"state": state_of(settings, replay), "audit": audit, "against": {}} | values
    (manifest.folder(settings, replay.generation) / "certificate.json").write(json.dumps(proof))


def promote(settings: Settings, replay: Replay, accept: str | None = None) -> Audit:
    return promotion.promote(SPARK, settings, replay, accept, nothing)


def commit(settings: Settings, name: str, generation: int = 1) -> None:
    """Commit to a table, or create it."""
    rows = arrow_schema(table_named(name)).empty_table()
    deltalake.write_deltalake(str(table_location(settings, name, generation)), rows, mode="append")


def refused(settings: Settings, replay: Replay, message: str, hint: str, accept: str | None = None) -> None:
    """Expect that a promotion is refused, and that the served tables stay as they are."""
    before = generations.live(settings)
    with pytest.raises(LakehouseError, match=message) as error:
        promote(settings, replay, accept)
    assert hint in error.value.hint
    assert generations.live(settings) == before


def test_what_was_verified_is_served_while_live_jobs_go_on(fresh_home: Settings, built: Replay) -> None:
    commit(fresh_home, VIEWS)
    commit(fresh_home, CLICKS)
    assert promote(fresh_home, built).passed
    assert generations.live(fresh_home)[VIEWS] == built.generation
    refused(fresh_home, built, "is served already", "lakehouse replay list")


def test_without_a_certificate(fresh_home: Settings, built: Replay) -> None:
    (manifest.folder(fresh_home, built.generation) / "certificate.json").remove()
    refused(fresh_home, built, "has no certificate", "lakehouse replay verify 2")


def test_with_a_certificate_of_an_older_release(fresh_home: Settings, built: Replay) -> None:
    certify(fresh_home, built, state={})
    refused(fresh_home, built, "written by an older release", "lakehouse replay verify 2")


def test_a_table_that_changed_after_verify(fresh_home: Settings, built: Replay) -> None:
    commit(fresh_home, VIEWS, built.generation)
    refused(fresh_home, built, f"another state: {VIEWS} has changed", "lakehouse replay verify 2")
    certify(fresh_home, built)
    assert promote(fresh_home, built).passed


@pytest.mark.parametrize("generation", [1, 2])
def test_a_table_that_was_created_again_after_verify(fresh_home: Settings, built: Replay, generation: int) -> None:
    table_location(fresh_home, VIEWS, generation).remove()
    commit(fresh_home, VIEWS, generation)
    refused(fresh_home, built, f"another state: {VIEWS}", "lakehouse replay verify 2")


def test_other_tables_served_than_those_it_was_compared_with(fresh_home: Settings, built: Replay) -> None:
    generations.switch(fresh_home, {VIEWS: 3}, "promote")
    refused(fresh_home, built, f"another state: {VIEWS} is served from another table", "lakehouse replay verify 2")


def test_input_tables_that_are_no_longer_served(fresh_home: Settings, built: Replay) -> None:
    generations.switch(fresh_home, {CLICKS: 3}, "promote")
    certify(fresh_home, built)
    refused(fresh_home, built, f"from generation 1 of {CLICKS}; generation 3 is served", "lakehouse replay drop 2")


def test_rows_without_a_reason_unless_they_are_accepted(fresh_home: Settings, built: Replay) -> None:
    found = {"by_reason": {"late": 2, "unexplained": 3}, "unexplained": 3}
    certify(fresh_home, built, against={"what is served": {VIEWS: found}})
    refused(fresh_home, built, "3 rows of generation 2 differ without a reason", '--accept "REASON"')
    assert promote(fresh_home, built, "known").passed


def test_rules_that_were_broken_at_verify(fresh_home: Settings, built: Replay) -> None:
    certify(fresh_home, built, audit={"rules": 1, "failures": [{"table": VIEWS, "rule": "key_unique"}]})
    refused(fresh_home, built, f"{VIEWS}: key_unique", "lakehouse replay verify 2", accept="whatever")


def test_rules_that_are_broken_now(fresh_home: Settings, built: Replay, gate: list[Finding]) -> None:
    gate.append(BROKEN)
    assert not promote(fresh_home, built, "whatever").passed
    assert generations.live(fresh_home)[VIEWS] == generations.FIRST


def test_a_replay_that_is_not_finished(fresh_home: Settings, built: Replay) -> None:
    refused(fresh_home, replace(built, state="running"), "Replay 2 is not finished", "lakehouse replay run --resume 2")


def test_other_code_than_that_which_built_it(fresh_home: Settings, built: Replay) -> None:
    (other,) = manifest.new(fresh_home, [another_job()], "kafka", "earliest").code.values()
    assert other != built.code[NAME]
    for code in ({NAME: other}, {}):
        of_another = replace(built, code=code)
        refused(fresh_home, of_another, f"Other code built generation 2: {NAME}", "lakehouse replay drop 2")
        with pytest.raises(LakehouseError, match="Other code built generation 2"):
            running.run(SPARK, fresh_home, replace(of_another, state="running"))


@pytest.mark.parametrize(("job", "generation", "hint"), [(NAME, 2, "replay drop 2"), ("clicks_enriched", 1, "reset")])
def test_a_dropped_row_in_the_replay_or_in_its_input(
    fresh_home: Settings, built: Replay, job: str, generation: int, hint: str
) -> None:
    rows: Any = None
    batch_log.record_batch(Batch(rows, job, 0, 1, generation, fresh_home, dropped=lambda: 1), 0)
    refused(fresh_home, built, f"'{job}' stopped: Spark dropped 1 row", hint, accept="whatever")
    with pytest.raises(LakehouseError, match="Spark dropped 1 row"):
        refuse_unfit(fresh_home, built, built.jobs_to_run())  # as verify does
    with pytest.raises(LakehouseError, match="Spark dropped 1 row"):
        running.run(SPARK, fresh_home, replace(built, state="running"))
    # Another replay would not read what this one has dropped; but it would read its input again.
    blockers = plan(fresh_home, built.jobs_to_run(), "kafka", "earliest").blockers
    told = [way_out for problem, way_out in blockers if "Spark dropped 1 row" in problem]
    assert [hint in way_out for way_out in told] == ([] if job == NAME else [True])


def test_a_replay_that_dropped_a_row_is_not_resumed(fresh_home: Settings, built: Replay) -> None:
    rows: Any = None
    batch_log.record_batch(Batch(rows, NAME, 0, 1, built.generation, fresh_home, dropped=lambda: 1), 0)
    with pytest.raises(LakehouseError, match="Spark dropped 1 row"):
        running.run(SPARK, fresh_home, replace(built, state="running"))
