"""In CI a skipped test is a failure, unless its reason is listed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS = """
import pytest

@pytest.mark.skip(reason="listed reason")
def test_listed(): ...

@pytest.mark.skip(reason="other reason")
def test_not_listed(): ...

def test_skipped_on_the_way():
    pytest.skip("other reason")

@pytest.mark.xfail(strict=True)
def test_known_to_fail():
    assert False

def test_passes(): ...
"""
WHOLE_FILE = """
import pytest
pytest.importorskip("no_such_module", reason="other reason")
"""


@pytest.mark.parametrize(
    ("ci", "outcomes"),
    [
        ("", {"skipped": 4, "xfailed": 1, "passed": 1}),
        ("true", {"skipped": 1, "xfailed": 1, "passed": 1, "failed": 1, "errors": 2}),
    ],
)
def test_a_skip_needs_a_listed_reason_in_ci_only(tmp_path: Path, ci: str, outcomes: dict[str, int]) -> None:
    shutil.copy(HERE / "conftest.py", tmp_path)
    (tmp_path / "skips.txt").write_text("first reason\nlisted reason\n")
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "test_whole_file.py").write_text(WHOLE_FILE)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "--rootdir=.",
            "--continue-on-collection-errors",
            "-p",
            "no:cacheprovider",
            ".",
        ],
        cwd=tmp_path,
        env={**os.environ, "CI": ci},
        text=True,
        capture_output=True,
        check=False,
    )
    last = done.stdout.splitlines()[-1]
    assert {word: int(count) for count, word in re.findall(r"(\d+) ([a-z]+)\b", last)} == outcomes, last
    assert (done.returncode == 0) is not bool(ci)
    assert ("listed in tests/skips.txt: other reason" in done.stdout) is bool(ci)
