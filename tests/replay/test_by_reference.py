"""Landing by reference gives what landing again gives, in every table and in the ledger."""

from collections import Counter

import pytest
from handmade import Lake

from config.declarations import table_named
from lake import ledger
from lake.tables import read
from replay import manifest
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
def by_reference(lake: Lake, built: Replay) -> Replay:
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
    return running.run(lake.spark, lake.settings, todo)


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
