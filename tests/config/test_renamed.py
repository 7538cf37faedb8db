"""Renamed keys and options: every old name is an error that gives the new one."""

import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import lakehouse
from config.declarations import TABLES, TOPICS, tables, topics
from config.errors import LakehouseError
from config.rule_files import FOLDER
from config.rules import rules
from config.settings import RENAMED, RENAMED_OPTIONS, load_settings


def _topic(folder: Path) -> None:
    _rename(TOPICS / "clicks.yaml", folder, "max_clock_ahead:", "ahead:")
    topics(folder)


def _table(folder: Path) -> None:
    (file,) = (each for each in TABLES.glob("*.yaml") if "\nlateness_of:" in each.read_text())
    shutil.copytree(TABLES, folder, dirs_exist_ok=True)
    _rename(file, folder, "\nlateness_of:", "\nfollows:")
    tables(folder)


def _rule(folder: Path) -> None:
    _rename(FOLDER / "silver.clicks.yaml", folder, "description:", "says:")
    rules("silver.clicks", folder)


def _setting(name: str, folder: Path) -> None:
    (folder / "local.yaml").write_text(f"streaming: {{{name}: 1}}")
    load_settings(folder / "local.yaml")


def _variable(name: str, folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(f"LAKEHOUSE_STREAMING__{name}", "1")
        load_settings()


def _rename(file: Path, folder: Path, new: str, old: str) -> None:
    text = file.read_text()
    assert new in text
    (folder / file.name).write_text(text.replace(new, old, 1))


USED: dict[str, Callable[[Path], None]] = {
    "ahead": _topic,
    "follows": _table,
    "says": _rule,
    "streaming.archive_bytes_per_batch": partial(_setting, "archive_bytes_per_batch"),
    "LAKEHOUSE_STREAMING__ARCHIVE_BYTES_PER_BATCH": partial(_variable, "ARCHIVE_BYTES_PER_BATCH"),
    "streaming.follow_seconds": partial(_setting, "follow_seconds"),
    "LAKEHOUSE_STREAMING__FOLLOW_SECONDS": partial(_variable, "FOLLOW_SECONDS"),
}
"""By renamed key: what reads a declaration, rule or setting that still has the old name."""


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_a_renamed_key_is_an_error_that_gives_the_new_name(old: str, new: str, tmp_path: Path) -> None:
    with pytest.raises(LakehouseError) as error:
        USED[old](tmp_path)
    assert f"it is now called '{new}'" in error.value.problem


@pytest.mark.parametrize(("old", "new"), RENAMED_OPTIONS.items())
@pytest.mark.parametrize("value", ["", "=7"])
def test_a_renamed_option_is_an_error_that_gives_the_new_name(
    old: str, new: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["lakehouse", *(old + value).split()])
    with pytest.raises(SystemExit) as end:
        lakehouse.main()
    assert end.value.code == 2
    assert f"{old.split()[-1]} is now called {new}." in capsys.readouterr().err
