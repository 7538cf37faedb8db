"""Landed code: each start of landing adds the present version; a list with one version says who landed every row."""

from dataclasses import replace

import pytest

from config.settings import Settings
from lake.location import Location, storage
from streaming import landed_code
from streaming.job import Job, job_named

LANDING = job_named("landing")


@pytest.fixture
def folder(fresh_home: Settings) -> Location:
    return storage(fresh_home) / "checkpoints" / "g1" / "landing"


def versions(folder: Location) -> list[str]:
    return [each["code_version"] for each in landed_code.recorded(folder)]


def test_a_restart_with_the_same_code_adds_nothing(fresh_home: Settings, folder: Location) -> None:
    landed_code.record(LANDING, fresh_home, folder)
    (folder / "e1" / "metadata").write("{}")
    landed_code.record(LANDING, fresh_home, folder)
    assert versions(folder) == [landed_code.present(LANDING, fresh_home)["code_version"]]


def test_another_horizon_of_duplicates_is_another_version(fresh_home: Settings, folder: Location) -> None:
    longer = fresh_home.streaming.model_copy(update={"dedup_horizon_minutes": 120})
    for settings in (fresh_home, fresh_home.model_copy(update={"streaming": longer}), fresh_home):
        landed_code.record(LANDING, settings, folder)
    assert len(set(versions(folder))) == len(versions(folder)) == 2


def test_what_an_older_release_has_landed_is_of_an_unknown_version(fresh_home: Settings, folder: Location) -> None:
    (folder / "e1" / "metadata").write("{}")
    landed_code.record(LANDING, fresh_home, folder)
    assert versions(folder) == ["", landed_code.present(LANDING, fresh_home)["code_version"]]


@pytest.mark.parametrize("job", [job_named("sessions"), replace(LANDING, module="")])
def test_other_jobs_have_none(fresh_home: Settings, folder: Location, job: Job) -> None:
    landed_code.record(job, fresh_home, folder)
    assert versions(folder) == []
