"""Damaged tables: the file is named, with a command that works."""

import shutil
import sys
from pathlib import Path
from urllib.parse import unquote

import deltalake
import pyarrow as pa
import pytest
from gold import catch_up, records_of
from handmade import Lake
from recomputed import recompute
from typer.testing import CliRunner

import lakehouse
from batch import publications, segments
from config.settings import Settings
from lake import generations
from lake.damage import BY_HAND, ENRICHED, damages
from lake.location import table_location
from local.simulator.plan import Plan
from streaming.job import downstream, job_named

GOLD = "gold.views_per_minute"


def commit(settings: Settings, name: str, commits: int = 3) -> Path:
    location = table_location(settings, name)
    for number in range(commits):
        deltalake.write_deltalake(str(location), pa.table({"a": [number]}), mode="append")
    return Path(location.url)


def entry(table: Path, version: int) -> Path:
    return table / "_delta_log" / f"{version:020}.json"


def test_whole_tables_are_not_damaged(fresh_home: Settings) -> None:
    assert damages(fresh_home) == []
    table = commit(fresh_home, GOLD)
    commit(fresh_home, "ops.ledger", 1)
    assert damages(fresh_home) == []
    (fresh_home.warehouse / "gold" / "made by a kill" / "_delta_log").mkdir(parents=True)
    deltalake.DeltaTable(table).create_checkpoint()
    entry(table, 1).unlink()  # cleaned up: the checkpoint has it
    assert damages(fresh_home) == []


def test_a_last_log_entry_that_is_cut_off_anywhere_is_named_and_the_command_opens_the_table(
    fresh_home: Settings,
) -> None:
    table = commit(fresh_home, GOLD)
    last = entry(table, 2)
    whole = last.read_bytes()
    for length in (0, 1, len(whole) // 3, len(whole) // 2, len(whole) - 1):
        last.write_bytes(whole[:length])
        (found,) = damages(fresh_home)
        assert (found.file.url, found.problem) == (str(last), "is cut off")
        assert found.hint.startswith(f"rm '{last}', then: lakehouse stream run")
    last.unlink()
    assert damages(fresh_home) == []
    assert deltalake.DeltaTable(table).version() == 1


def test_an_earlier_entry_that_is_cut_off_or_missing_needs_a_backup(fresh_home: Settings) -> None:
    table = commit(fresh_home, GOLD)
    entry(table, 1).write_bytes(b"{")
    assert [(each.file.url, each.hint) for each in damages(fresh_home)] == [(str(entry(table, 1)), BY_HAND)]
    entry(table, 1).unlink()
    assert [(each.file.url, each.problem) for each in damages(fresh_home)] == [(str(entry(table, 1)), "is missing")]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        (GOLD, "lakehouse stream reset views_per_minute, then: lakehouse stream run"),
        (ENRICHED, "lakehouse stream reset clicks_enriched, then: lakehouse stream run"),
        ("silver.clicks", BY_HAND),
        ("bronze.events", BY_HAND),
        ("ops.ledger", BY_HAND),
    ],
)
def test_a_missing_data_file_is_named(fresh_home: Settings, name: str, hint: str) -> None:
    table = commit(fresh_home, name)
    lost = sorted(table.glob("*.parquet"))[1]
    lost.unlink()
    (found,) = damages(fresh_home)
    assert (found.file.url, found.problem, found.hint) == (str(lost), "is missing", hint)


def test_an_older_generation_is_removed_not_rebuilt(fresh_home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    table = commit(fresh_home, ENRICHED)
    lost = lose_a_file(table)
    monkeypatch.setattr(generations, "live", lambda _: {ENRICHED: 2})
    (found,) = damages(fresh_home)
    assert found.file.url == str(lost)
    assert found.hint == f"rm -r '{table}', then: lakehouse catalog refresh   (a later generation is served)"


def rebuilt_by(hint: str) -> list[str]:
    """Return the words of the first command in a hint."""
    return hint.split(", then:")[0].split("   ")[0].removeprefix("lakehouse ").split()


def lose_a_file(table: Path) -> Path:
    lost = max(Path(file.removeprefix("file://")) for file in map(unquote, deltalake.DeltaTable(table).file_uris()))
    lost.unlink()
    return lost


@pytest.mark.slow
@pytest.mark.jvm
def test_the_commands_rebuild_an_enriched_table_and_a_batch_table(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.land(records_of(Plan(seed=4, events=300, late=0, duplicates=0, malformed=0)))
    catch_up(lake, [job.name for job in downstream([job_named("clicks_enriched")])])
    assert recompute(lake, full=True).publication
    enriched = Path(str(table_location(lake.settings, ENRICHED)))
    batch = Path(str(segments.path(lake.settings, "silver.clicks")))
    rows = {table: deltalake.DeltaTable(table).to_pyarrow_table().num_rows for table in (enriched, batch)}
    lost = {lose_a_file(enriched), lose_a_file(batch)}
    hints = {Path(each.file.url): each.hint for each in damages(lake.settings)}
    assert hints.keys() == lost

    for module in ("streaming.repair_commands", "config.spark"):
        monkeypatch.setattr(f"{module}.session", lambda *_: lake.spark)
    for hint in hints.values():
        done = CliRunner().invoke(lakehouse.build(), rebuilt_by(hint))
        assert (done.exit_code, done.exception) == (0, None), done.output
    second = Path(str(table_location(lake.settings, ENRICHED, 2)))
    assert deltalake.DeltaTable(second).to_pyarrow_table().num_rows == rows[enriched]
    published = publications.served(lake.settings)
    assert published
    again = deltalake.DeltaTable(batch).to_pyarrow_table([(segments.RUN, "=", published.run)])
    assert again.num_rows == rows[batch]
    # The generation before stays until it is removed: nobody is served from it.
    left = [each.hint for each in damages(lake.settings) if each.file.url.startswith(str(enriched))]
    assert left == [f"rm -r '{enriched}', then: lakehouse catalog refresh   (a later generation is served)"]


def test_an_unexpected_error_names_the_damage_that_caused_it(
    fresh_home: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = commit(fresh_home, GOLD)
    last = entry(table, 2)
    last.write_bytes(last.read_bytes()[:100])
    monkeypatch.setattr(sys, "argv", ["lakehouse", "sql"])
    with pytest.raises(SystemExit) as end:
        lakehouse.main()
    told = capsys.readouterr().err
    assert end.value.code == 2
    assert f"{last} is cut off." in told
    assert f"rm '{last}'" in told


def test_another_error_keeps_its_traceback(fresh_home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    commit(fresh_home, GOLD)
    monkeypatch.setattr(lakehouse, "build", lambda: fail)
    with pytest.raises(ZeroDivisionError):
        lakehouse.main()
    shutil.rmtree(fresh_home.home)
