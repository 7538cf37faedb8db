"""The home: only what is marked as ours is removed, only its owner reads it, and its path breaks nothing."""

from pathlib import Path

import pytest

from config.errors import LakehouseError
from config.home import BREAKS_PATHS, MARKER, empty_home, make_home, open_to_others
from config.settings import Settings, load_settings


@pytest.mark.parametrize("breaking", [*BREAKS_PATHS, "\n", "\t", "\x1b", "\u202e"])
def test_a_path_that_breaks_kafka_java_or_spark_is_refused_by_name(
    breaking: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path / f"a{breaking}b"))
    with pytest.raises(LakehouseError, match="contains") as error:
        load_settings()
    assert f"contains {breaking!r};" in error.value.problem
    assert "LAKEHOUSE_HOME" in error.value.hint


def test_other_paths_are_homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path / "Zoë's home (2) @work_1.0-x+y=z!~^"))
    assert load_settings().home.parent == tmp_path


def test_a_new_home_is_marked_and_for_its_owner_only(tmp_path: Path, settings: Settings) -> None:
    mine = settings.at(tmp_path / "new" / "home")
    make_home(mine)
    assert (mine.home / MARKER).is_file()
    assert mine.home.stat().st_mode & 0o777 == 0o700
    assert open_to_others(mine) == ""
    mine.home.chmod(0o750)
    assert open_to_others(mine) == "750"


def test_a_folder_that_holds_something_else_is_neither_marked_nor_emptied(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "thesis.txt").touch()
    mine = settings.at(tmp_path)
    make_home(mine)
    assert not (tmp_path / MARKER).exists()
    with pytest.raises(LakehouseError, match="may not be ours") as error:
        empty_home(mine)
    assert (tmp_path / "thesis.txt").exists()
    assert error.value.hint.endswith(f"touch '{tmp_path / MARKER}'")
    (tmp_path / MARKER).touch()
    empty_home(mine)
    assert not tmp_path.exists()


def test_a_home_that_does_not_exist_is_empty(tmp_path: Path, settings: Settings) -> None:
    empty_home(settings.at(tmp_path / "nowhere"))
