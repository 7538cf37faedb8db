"""Rebuild: a reset of a job builds its table and those downstream next to the served ones, then switches."""

import shutil
from functools import partial

import deltalake
import pytest
from gold import catch_up, configured, records_of
from handmade import Lake
from typer.testing import CliRunner

import streaming.rebuild as rebuilding
from config.declarations import table_named
from config.errors import LakehouseError
from expectations.layers import check
from lake import batch_log, generations
from lake.damage import damages
from lake.location import table_location
from local.simulator.plan import Plan
from streaming.checkpoint import job_folder, last_checkpoint
from streaming.commands import app
from streaming.job import downstream, job_named
from streaming.rebuild import rebuild
from streaming.windows.closing import close

ENRICHER = "clicks_enriched"
ENRICHED, VIEWS = "silver.clicks_enriched", "gold.views_per_minute"
TABLES = [ENRICHED, VIEWS, "gold.trending"]


def served(lake: Lake) -> dict[str, set[str]]:
    """Read the served rows of every table that the reset concerns."""
    now = generations.live(lake.settings)
    return {name: rows(lake, name, now[name]) for name in TABLES}


def rows(lake: Lake, name: str, generation: int) -> set[str]:
    table = deltalake.DeltaTable(str(table_location(lake.settings, name, generation)))
    columns = [column for column in table_named(name).stored if column != "tier_event_id"]
    return {repr(row) for row in table.to_pyarrow_dataset().to_table(columns=columns, use_threads=False).to_pylist()}


def test_a_reset_rebuilds_the_job_and_what_depends_on_it_and_no_table_is_ever_empty(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = records_of(Plan(seed=11, events=900, late=0, duplicates=0, malformed=0))
    lake.land(records[:-200])
    jobs = [job.name for job in downstream([job_named(ENRICHER)])]
    catch_up(lake, jobs)
    before = served(lake)
    assert all(before.values())
    # The runbook's way out of a gold table that fails its check.
    location = table_location(lake.settings, VIEWS)
    deltalake.write_deltalake(location.url, location.table().to_pyarrow_table().slice(0, 1), mode="append")
    assert broken_rules(lake) == {(VIEWS, "key_unique")}

    # A lost checkpoint is refused with the same command.
    shutil.rmtree(str(job_folder(ENRICHER, lake.settings, 1)))
    with pytest.raises(LakehouseError, match="checkpoint of 'clicks_enriched' is gone") as lost:
        catch_up(lake, [ENRICHER])
    assert "lakehouse stream reset clicks_enriched" in lost.value.hint

    # Killed before the switch, nothing that is served has changed; the next reset starts over.
    for where in ("after reset record", "after reset run", "before reset switch"):
        monkeypatch.setattr(rebuilding, "failpoint", partial(dies, where=where))
        with pytest.raises(OSError, match=where):
            rebuild(lake.spark, lake.settings, job_named(ENRICHER))
        assert served(lake) == before
    # What it has built is found on the disk: the record of the reset may be cut off.
    (lake.settings.home / "resets" / "g2" / "reset.json").write_text('{"job": "cli')
    monkeypatch.undo()
    monkeypatch.setenv("LAKEHOUSE_HOME", str(lake.settings.home))
    monkeypatch.setattr("streaming.repair_commands.session", lambda *_, **__: lake.spark)
    done = CliRunner().invoke(app, ["stream", "reset", ENRICHER])
    assert (done.exit_code, done.exception) == (0, None), done.output
    assert "Generation 2 is served: silver.clicks_enriched" in done.output
    assert served(lake) == before
    assert broken_rules(lake) == set()

    # The jobs continue from what was built.
    lake.land(records[-200:])
    catch_up(lake, jobs)
    assert before["silver.clicks_enriched"] < served(lake)["silver.clicks_enriched"]
    assert before["gold.views_per_minute"] != served(lake)["gold.views_per_minute"]
    assert rows(lake, "silver.clicks_enriched", 1) == before["silver.clicks_enriched"]


@pytest.mark.parametrize("strategy", ["merge", "count"])
def test_a_reset_counts_late_events_as_the_served_table_does(lake: Lake, strategy: str) -> None:
    configured(lake, late={"views_per_minute": strategy})
    records = records_of(Plan(seed=13, events=700, late=0.2, duplicates=0.05, malformed=0))
    views = ["clicks_enriched", "views_per_minute"]
    for part in (records[:-300], records[-300:]):  # late events of minutes that were written before
        lake.land(part)
        catch_up(lake, views)
    before = rows(lake, "gold.views_per_minute", 1)
    assert sum("'late_views': 0" not in row for row in before) > 5
    assert "gold.views_per_minute" in rebuild(lake.spark, lake.settings, job_named("views_per_minute"))
    assert rows(lake, "gold.views_per_minute", 2) == before


def test_what_was_closed_on_request_is_still_final_after_a_reset(lake: Lake) -> None:
    sessions = job_named("sessions")
    lake.land(records_of(Plan(seed=12, events=300, late=0, duplicates=0, malformed=0)))
    catch_up(lake, ["sessions"])
    closed_until = close(sessions, lake.settings, lake.spark)
    before = rows(lake, "gold.sessions", 1)
    assert rebuild(lake.spark, lake.settings, sessions) == ["gold.sessions"]
    assert rows(lake, "gold.sessions", 2) == before != set()
    assert batch_log.closed_until(lake.settings, "sessions", 2) == closed_until


@pytest.mark.parametrize(
    ("name", "recorded"),
    [
        (VIEWS, True),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in ((VIEWS, False), (ENRICHED, True), (ENRICHED, False))
        ),
    ],
)
def test_the_way_out_of_a_log_entry_that_is_cut_off_loses_no_row(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, name: str, recorded: bool
) -> None:
    """recorded: whether Spark had recorded the batch, which it then does not repeat."""
    records, jobs = (
        records_of(Plan(seed=14, events=400, late=0, duplicates=0, malformed=0)),
        [ENRICHER, "views_per_minute"],
    )
    for part in (records[:-150], records[-150:]):
        lake.land(part)
        catch_up(lake, jobs)
    before, job = rows(lake, name, 1), job_named(name.partition(".")[2])
    (*_, last) = (table_location(lake.settings, name) / "_delta_log").children("*.json")
    last.write(b"")
    if not recorded:
        done = (last_checkpoint(job, lake.settings, 1).location / "commits").children("[0-9]*")
        max(done, key=lambda file: int(file.name)).remove()
    (found,) = damages(lake.settings)
    remove, reset, follow = found.hint.split(", then: ")
    assert (remove, follow) == (f"rm '{last}'", "lakehouse stream run")
    last.remove()
    if recorded:
        catch_up(lake, jobs)
        assert rows(lake, name, 1) < before, "to run the job repeats nothing"
    monkeypatch.setattr("streaming.repair_commands.session", lambda *_, **__: lake.spark)
    ran = CliRunner().invoke(app, reset.split()[1:])
    assert (ran.exit_code, ran.exception) == (0, None), ran.output
    catch_up(lake, jobs)
    assert rows(lake, name, generations.live(lake.settings)[name]) == before


def broken_rules(lake: Lake) -> set[tuple[str, str]]:
    audits = check(lake.spark, lake.settings, "gold")
    return {(each.table, each.rule) for audit in audits for each in audit.failures}


def dies(place: str, where: str) -> None:
    if place == where:
        raise OSError(place)
