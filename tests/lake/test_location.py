"""Location: a file is written completely or not at all, one of two creators wins, generations have separate folders."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from config.settings import Settings
from lake.location import Location, storage, table_location


@pytest.fixture
def here(tmp_path: Path) -> Location:
    return Location(str(tmp_path)) / "folder"


def test_what_was_written_is_read_and_what_was_not_is_none(here: Location) -> None:
    assert (here / "a.json").read() is None
    (here / "a.json").write("one")
    (here / "a.json").write("two")
    assert (here / "a.json").read() == "two"
    assert [child.name for child in here.children()] == ["a.json"]


def test_of_many_who_create_a_file_at_once_one_succeeds(here: Location) -> None:
    with ThreadPoolExecutor(8) as pool:
        created = list(pool.map(lambda number: (here / f"e{number % 2}").create(str(number)), range(16)))
    assert sum(created[0::2]) == sum(created[1::2]) == 1
    assert [child.name for child in here.children()] == ["e0", "e1"]


def test_children_are_those_directly_below_that_match(here: Location) -> None:
    for name in ("g10/x", "g2/x", "other"):
        (here / name).write("")
    assert [child.name for child in here.children("g[0-9]*")] == ["g10", "g2"]
    assert Location(f"{here}/nowhere").children() == []


def test_a_location_exists_if_a_file_is_there_or_below(here: Location) -> None:
    assert not here.exists()
    (here / "a" / "b").write("12345")
    assert here.exists() and (here / "a").exists() and (here / "a").size() == 5
    here.remove()
    assert not here.exists()
    here.remove()


def test_a_table_of_another_generation_is_elsewhere(settings: Settings) -> None:
    assert table_location(settings, "silver.clicks") != table_location(settings, "silver.clicks", 2)
    assert table_location(settings, "bronze.events") == table_location(settings, "bronze.events", 2)
    assert str(table_location(settings, "gold.sessions", 3)) == f"{storage(settings)}/warehouse/gold/sessions/g3"
