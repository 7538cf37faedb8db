"""Landing by reference gives what landing again gives, in every table and in the ledger."""

from collections import Counter
from collections.abc import Iterator
from unittest.mock import Mock

import pytest
from handmade import Lake, Log, click
from pyspark.sql import SparkSession

from config.declarations import table_named
from config.errors import LakehouseError
from config.settings import Settings
from lake import ledger
from lake.location import table_location
from lake.tables import read
from replay import manifest, reuse
from replay import run as running
from replay.manifest import Replay
from streaming import landed_code
from streaming.checkpoint import job_folder
from streaming.job import job_named, jobs

STEPS = (
    *("after reused versions", "after silver.users", "after silver.duplicates"),
    *("after reused tables", "after ops.ledger", "after replay run"),
)


@pytest.fixture(scope="module")
def by_reference(lake: Lake, built: Replay) -> Iterator[Replay]:
    """All of the lake replayed from its served silver tables, broken off after each step and resumed."""
    landing = job_named("landing")
    landed_code.record(landing, lake.settings, job_folder("landing", lake.settings, 1))  # as the runner does
    todo, left = manifest.new(lake.settings, list(jobs().values()), "silver", "earliest"), list(STEPS)

    def die(place: str) -> None:
        if place in left:
            left.remove(place)
            raise OSError(place)

    with pytest.MonkeyPatch.context() as patch:
        for module in ("replay.run", "replay.reuse", "lake.tables", "lake.ledger"):
            patch.setattr(f"{module}.failpoint", die)
        while left:
            with pytest.raises(OSError, match="after"):
                running.run(lake.spark, lake.settings, todo)
            todo = manifest.interrupted(lake.settings, todo.generation)
    done = running.run(lake.spark, lake.settings, todo)
    yield done
    manifest.drop(lake.settings, done, lambda: None)  # others share the lake


@pytest.fixture
def small(spark: SparkSession, fresh_home: Settings, log: Log) -> Lake:
    """Three clicks that have landed, and nothing that follows them."""
    lake = Lake(spark, fresh_home)
    for number in range(3):
        log.send(click(f"e{number}"))
    lake.land(log.records)
    landed_code.record(job_named("landing"), fresh_home, job_folder("landing", fresh_home, 1))
    return lake


def landed_by_reference(lake: Lake) -> list[str]:
    reuse.land_by_reference(lake.spark, lake.settings, 2)
    return sorted(row.event_id for row in read(lake.spark, "silver.clicks", lake.settings, 2).collect())


def rows(lake: Lake, name: str, generation: int) -> Counter[str]:
    stored = list(table_named(name).stored)
    return Counter(map(repr, read(lake.spark, name, lake.settings, generation).select(*stored).collect()))


def outcomes(lake: Lake, generation: int) -> dict[tuple[str, int], dict[str, int]]:
    entries = ledger.entries(lake.settings, ["landing"])
    return ledger.by_partition([row for row in entries if row["generation"] == generation])


def test_every_table_and_the_ledger_equal_those_of_landing_again(
    lake: Lake, built: Replay, by_reference: Replay
) -> None:
    served, again, mine = (outcomes(lake, number) for number in (1, built.generation, by_reference.generation))
    assert mine == again != served
    assert all(sum(row[term] for row in served.values()) > 10 for term in ("quarantined", "late", "duplicates"))
    assert sum(row["duplicates"] for row in mine.values()) > sum(row["duplicates"] for row in served.values())
    assert by_reference.records == built.records
    assert set(built.tables) == set(by_reference.tables) > {"silver.users", "silver.late", "gold.sessions"}
    differing = {}
    for name in built.tables:
        wanted, found = (rows(lake, name, number) for number in (built.generation, by_reference.generation))
        assert wanted or name == "silver.late", f"{name} is empty: the comparison says nothing"
        if wanted != found:
            differing[name] = (list((wanted - found).elements())[:2], list((found - wanted).elements())[:2])
    assert not differing


def test_the_code_that_landed_the_served_rows_landed_its_own(lake: Lake, by_reference: Replay) -> None:
    mine, served = (
        landed_code.recorded(job_folder("landing", lake.settings, number)) for number in (by_reference.generation, 1)
    )
    assert mine == served and len(served) == 1


def test_a_batch_that_is_in_silver_and_not_yet_in_the_ledger_is_left_out(
    small: Lake, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.send(click("e3"))
    with monkeypatch.context() as patch, pytest.raises(OSError, match="killed"):
        patch.setattr(ledger, "record_entry", Mock(side_effect=OSError("killed")))
        small.land(log.records[3:])
    assert len(small.rows("silver.clicks")) == 4
    assert landed_by_reference(small) == ["e0", "e1", "e2"]


def test_nothing_is_built_on_served_tables_that_lack_a_record(small: Lake) -> None:
    table_location(small.settings, "silver.clicks").table().delete("event_id = 'e1'")
    with pytest.raises(LakehouseError, match=r"clicks/0, offsets 0 to 2: the ledger counts 3 .*, the tables have 2"):
        landed_by_reference(small)
    assert not [row for row in ledger.entries(small.settings) if row["generation"] == 2]
