"""Logic: a change of code is never slipped under a checkpoint."""

from dataclasses import replace
from pathlib import Path

import pytest

from config.errors import LakehouseError
from streaming import code_version
from streaming.job import job_named

JOB = job_named("views_per_minute")


def test_the_same_logic_goes_on(tmp_path: Path) -> None:
    for _ in range(2):
        code_version.ensure_same_code(JOB, tmp_path)


def test_a_new_version_asks_for_a_replay(tmp_path: Path) -> None:
    code_version.ensure_same_code(JOB, tmp_path)
    with pytest.raises(LakehouseError, match="version 2 now") as refused:
        code_version.ensure_same_code(replace(JOB, version=2), tmp_path)
    assert "lakehouse replay run --jobs views_per_minute" in str(refused.value.hint)


def test_changed_code_without_a_new_version_is_refused_unless_vouched_for(tmp_path: Path) -> None:
    code_version.ensure_same_code(replace(JOB, module="streaming.roles.aggregator.trending"), tmp_path)
    with pytest.raises(LakehouseError, match="has changed under its checkpoint"):
        code_version.ensure_same_code(JOB, tmp_path)
    code_version.ensure_same_code(JOB, tmp_path, allow_code_change=True)
    code_version.ensure_same_code(JOB, tmp_path)


def test_comments_and_docstrings_are_no_logic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = ('def f():\n    """Say."""\n    return 1\n', "def f():  # why\n    return 1\n", "def f():\n    return 2\n")
    found = []
    for code in codes:
        monkeypatch.setattr(code_version, "source", lambda _, code=code: code)
        found.append(code_version.code_version(JOB))
    assert found[0] == found[1] != found[2]


def test_the_former_code_can_be_brought_back(tmp_path: Path) -> None:
    code_version.ensure_same_code(JOB, tmp_path)
    former = code_version.previous_job(tmp_path, "views_per_minute")
    assert former is not None
    assert (former.name, former.version, former.reads) == (JOB.name, JOB.version, JOB.reads)
