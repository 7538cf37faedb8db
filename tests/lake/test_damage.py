"""Damaged tables: the file is named, with a command that works."""

import shutil
import sys
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from damaged import lose_a_file

import lakehouse
from config.settings import Settings
from lake import generations
from lake.damage import BY_HAND, ENRICHED, damages
from lake.location import table_location

GOLD = "gold.views_per_minute"
RESET = "lakehouse stream reset views_per_minute, then: lakehouse stream run"
LAND = "lakehouse stream run --until-caught-up, then: lakehouse check ledger"
BATCH = "lakehouse batch run --full"


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
    (Path(fresh_home.warehouse) / "gold" / "made by a kill" / "_delta_log").mkdir(parents=True)
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
        assert found.hint == f"rm '{last}', then: {RESET}"
    last.unlink()
    assert damages(fresh_home) == []
    assert deltalake.DeltaTable(table).version() == 1


@pytest.mark.parametrize(
    ("folder", "hint"),
    [
        ("gold/views_per_minute/g1", RESET),
        ("silver/clicks_enriched/g1", RESET.replace("views_per_minute", "clicks_enriched")),
        ("silver/clicks/g1", f"{LAND}   (if it passes, reset the jobs that read silver.clicks: lakehouse stream reset"),
        ("silver/late/g1", f"{LAND}   (if it passes, reset the jobs that read silver.late: lakehouse stream reset"),
        ("bronze/events", f"{LAND}   (if it does not pass, see 'A table is damaged' in docs/runbook.md)"),
        ("batch/silver.clicks", f"{BATCH}   (older publications"),
        ("batch/judged", BATCH),
        ("ops/ledger/g1/landing", "lakehouse stream reset landing, then: lakehouse stream run, then: lakehouse check"),
        ("ops/batches/g1/sessions", "lakehouse stream reset sessions, then: lakehouse stream run"),
        ("ops/generations", "lakehouse catalog refresh   (the last promotion, rollback or reset is undone"),
        ("ops/publications", BATCH),
        ("ops/metrics/check", "nothing else   (the last results are lost)"),
    ],
)
def test_each_layer_has_a_way_out_of_a_last_entry_that_is_cut_off(fresh_home: Settings, folder: str, hint: str) -> None:
    table = Path(fresh_home.warehouse) / folder
    for number in range(2):
        deltalake.write_deltalake(table, pa.table({"a": [number]}), mode="append")
    last = entry(table, 1)
    last.write_bytes(last.read_bytes()[:50])
    (found,) = damages(fresh_home)
    assert found.hint.startswith(f"rm '{last}', then: {hint}")


def test_entries_of_the_ledger_that_no_command_writes_again_need_a_backup(fresh_home: Settings) -> None:
    for writer in ("redrive", "landing.lost"):
        table = Path(fresh_home.warehouse) / "ops" / "ledger" / "g1" / writer
        deltalake.write_deltalake(table, pa.table({"a": [1]}))
        entry(table, 0).write_bytes(b"")
    assert {each.hint for each in damages(fresh_home)} == {BY_HAND}


def test_a_replay_that_is_not_served_is_dropped(fresh_home: Settings) -> None:
    table = Path(fresh_home.warehouse) / "silver" / "clicks" / "g2"
    deltalake.write_deltalake(table, pa.table({"a": [1]}))
    lost = lose_a_file(table)
    assert [each.hint for each in damages(fresh_home)] == [BY_HAND]
    (fresh_home.home / "replays" / "g2").mkdir(parents=True)
    (fresh_home.home / "replays" / "g2" / "manifest.json").write_text("{}")
    (found,) = damages(fresh_home)
    assert found.file.url == str(lost)
    assert found.hint.startswith("lakehouse replay drop 2, then: lakehouse replay run")


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


def test_an_unexpected_error_names_the_damage_that_caused_it(
    fresh_home: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = commit(fresh_home, GOLD)
    last = entry(table, 2)
    last.write_bytes(last.read_bytes()[:100])
    monkeypatch.setattr(sys, "argv", ["lakehouse", "sql"])
    with pytest.raises(SystemExit) as end:
        lakehouse.main()
    printed = capsys.readouterr().err
    assert end.value.code == 2
    assert f"{last} is cut off." in printed
    assert f"rm '{last}'" in printed


def test_another_error_keeps_its_traceback(fresh_home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    commit(fresh_home, GOLD)
    monkeypatch.setattr(lakehouse, "build", lambda: fail)
    with pytest.raises(ZeroDivisionError):
        lakehouse.main()
    shutil.rmtree(fresh_home.home)
