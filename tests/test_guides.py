"""Guides: each is followed step by step, in a copy of the project, as a reader would."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from reader import Reader

from config.settings import Settings

pytestmark = pytest.mark.guides


@pytest.fixture
def one_process() -> bool:
    return False


@pytest.fixture
def reader(tmp_path: Path, settings: Settings, one_process: bool) -> Iterator[Reader]:
    reader = Reader(tmp_path, one_process=one_process)
    yield reader
    reader.close()


@pytest.mark.parametrize("one_process", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_field_is_added_while_old_data_stays_readable(reader: Reader) -> None:
    said = "".join(reader.follow("guides/add-a-field.md"))
    assert re.search(r"guide-new\W+EUR", said)
    assert re.search(r"guide-old\W+None", said)
    assert re.search(r"guide-wrong\W+currency_code", said)
    (old,) = re.findall(r"None\W+([\d,]+)", said.rpartition("currency_code")[2])
    assert int(old.replace(",", "")) > 20
    assert "✓" in reader.run("lakehouse check ledger")


@pytest.mark.slow
def test_a_great_expectations_users_first_ten_minutes(reader: Reader) -> None:
    _, first, suites, _, failing, refused, _, redriven, last = reader.follow("quality-checks.md")
    assert re.search(r"✓ check silver: \d+ rules hold for 7 tables", first)
    assert re.search(r"^silver\.payments [1-9]", suites, re.M)
    assert "passed: True" in suites
    assert "A country is two capital letters (ISO 3166). (country_code)" in suites
    assert "✗ silver.payments: We take cards, nothing else. (cards_only, " in failing
    assert "lakehouse sql \"select event_id, method from silver.payments where not (method = 'card')\"" in failing
    assert "exit code 1" in failing
    (count,) = (int(number) for number in re.findall(r"payments\W+cards_only\W+(\d+)", refused))
    moved = [int(number) for number in re.findall(r"^(\d+) → ", redriven, re.M)]
    assert sum(moved) == count > 10
    assert "Nothing has changed" in redriven
    assert "✓ check silver" in last
    assert "✓ Every landed record is in bronze once and in exactly one table after it." in last


@pytest.mark.slow
def test_a_public_clickstream_becomes_windows_and_sessions(reader: Reader) -> None:
    said = reader.follow("guides/import-history.md")
    shown = "".join(
        re.findall(r"^```text\n(.*?)^```$", (reader.copy / "docs/guides/import-history.md").read_text(), re.M | re.S)
    )
    assert [line for line in shown.splitlines() if line not in "".join(said)] == []
    assert re.search(r"type_unknown\W+1\W", said[1])
    last = said[-1]
    assert re.search(r"windows\W+views\W+6\W+6\b", last)
    assert re.findall(r"(5\d{8})\W+(\d+)", last) == [
        ("520571932", "1"), ("541312140", "3"), ("541312140", "1"), ("554748717", "1"), ("554748717", "1")
    ]  # fmt: skip
    assert "type_unknown" in last
    assert "✓ Every landed record is in bronze once and in exactly one table after it." in last


# feature: replay
@pytest.mark.slow
def test_a_bug_was_shipped_and_history_is_corrected(reader: Reader) -> None:
    said = reader.follow("replay.md")
    shown = re.findall(r"^```text\n(.*?)^```$", (reader.copy / "docs" / "replay.md").read_text(), re.M | re.S)
    for block, expected in zip(said[2:], shown, strict=True):
        assert [line for line in expected.splitlines() if line not in block] == [], block


# end of feature: replay
