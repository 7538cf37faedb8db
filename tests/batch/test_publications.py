"""Publications, without Spark: the last one is served, an earlier one can be served again while it is kept."""

from datetime import date

import pytest

from batch.publications import kept, publications, publish, publish_again, served_publication
from batch.settings import BatchSettings
from config.errors import LakehouseError
from config.settings import Settings

MONDAY, TUESDAY = date(2026, 1, 5), date(2026, 1, 6)
FIRST, SECOND = "20260105T120000000000", "20260106T120000000000"


def test_without_a_publication_nothing_is_served(fresh_home: Settings) -> None:
    assert (publications(fresh_home), served_publication(fresh_home)) == ([], None)
    with pytest.raises(LakehouseError, match="Nothing was published yet"):
        publish_again(fresh_home, FIRST)


def test_the_last_one_is_served_and_names_the_run_of_each_segment(fresh_home: Settings) -> None:
    publish(fresh_home, FIRST, {"gold.sessions": {MONDAY: FIRST}})
    tables = {"gold.sessions": {MONDAY: FIRST, TUESDAY: SECOND}, "gold.trending": {TUESDAY: SECOND}}
    publish(fresh_home, SECOND, tables)
    found = served_publication(fresh_home)
    assert found is not None
    assert (found.number, found.run, dict(found.tables)) == (2, SECOND, tables)


def test_an_earlier_one_served_again_is_a_publication_of_its_own(fresh_home: Settings) -> None:
    before = {"gold.sessions": {MONDAY: FIRST}}
    publish(fresh_home, FIRST, before)
    publish(fresh_home, SECOND, {"gold.sessions": {MONDAY: SECOND}})
    publish_again(fresh_home, FIRST)
    found = served_publication(fresh_home)
    assert found is not None
    assert (found.number, found.run, dict(found.tables)) == (3, FIRST, before)


def test_one_that_is_no_longer_kept_is_refused(fresh_home: Settings) -> None:
    keep = fresh_home.section(BatchSettings).keep_publications
    runs = [f"20260105T1200000000{number:02}" for number in range(keep + 1)]
    for run in runs:
        publish(fresh_home, run, {"gold.sessions": {MONDAY: run}})
    assert [each.run for each in kept(fresh_home)] == runs[1:]
    with pytest.raises(LakehouseError, match=f"Run '{runs[0]}'"):
        publish_again(fresh_home, runs[0])
