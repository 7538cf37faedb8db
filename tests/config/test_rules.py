"""Rules: valid files load, and an error for a typo names the file, the line and the nearest name."""

from pathlib import Path

import pytest

from config.errors import LakehouseError
from config.rule_files import FOLDER
from config.rules import Rule, all_rules, rules

GOOD = """\
- name: dwell_not_negative
  column: dwell_ms
  expression: dwell_ms >= 0
  severity: quarantine
  description: Nobody stays for less than no time.
- name: quantity_positive
  column: quantity
  expression: quantity > 0
  severity: warn
  description: A cart takes at least one piece.
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "silver.clicks.yaml"


def refused(file: Path, text: str) -> str:
    file.write_text(text)
    with pytest.raises(LakehouseError) as error:
        rules("silver.clicks", file.parent)
    return error.value.problem


def expressed(expression: str, **columns: str) -> str:
    return Rule("a", "silver.clicks", "quantity", expression, "fail", "…").sql(columns)


def test_every_rule_file_of_the_project_loads() -> None:
    assert {rule.table for rule in all_rules()} == {file.stem for file in FOLDER.glob("*.yaml")}


def test_rules_are_read_in_their_order(file: Path) -> None:
    file.write_text(GOOD)
    assert [rule.name for rule in rules("silver.clicks", file.parent)] == ["dwell_not_negative", "quantity_positive"]
    assert rules("silver.clicks", file.parent)[1] == Rule(
        "quantity_positive", "silver.clicks", "quantity", "quantity > 0", "warn", "A cart takes at least one piece."
    )


def test_a_table_without_a_file_has_no_rules(tmp_path: Path) -> None:
    assert rules("silver.clicks", tmp_path) == ()


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        ("  severity: warn", "  severty: warn", 9, "unknown key 'severty': did you mean 'severity'?"),
        ("severity: warn", "severity: warm", 9, "severity 'warm': did you mean 'warn'?"),
        ("column: quantity", "column: quantty", 7, "silver.clicks has no column 'quantty': did you mean 'quantity'?"),
        ("dwell_ms >= 0", "dwel_ms >= 0", 3, "silver.clicks has no column 'dwel_ms': did you mean 'dwell_ms'?"),
        ("dwell_ms >= 0", "abs(dwel_ms) >= 0", 3, "no column 'dwel_ms': did you mean 'dwell_ms'?"),
        ("dwell_ms >= 0", "dwell_ms in (quantiy, 1)", 3, "no column 'quantiy': did you mean 'quantity'?"),
        ("  description: A cart takes at least one piece.\n", "", 6, "the rule has no 'description'"),
        ("column: quantity", "column: [quantity]", 7, "'column'"),
        ("expression: quantity > 0", "expression: {quantity: 0}", 8, "'expression'"),
    ],
)
def test_a_typo_is_reported_with_its_line_and_what_was_meant(
    file: Path, old: str, new: str, line: int, what: str
) -> None:
    message = refused(file, GOOD.replace(old, new))
    assert message.startswith(f"{file}, line {line}: ")
    assert what in message


@pytest.mark.parametrize("text", ["a: b: c", "word", "", "- word", "rules: []"])
def test_a_file_that_is_no_list_of_rules_is_named(file: Path, text: str) -> None:
    assert str(file) in refused(file, text)


def test_a_file_for_a_table_that_is_not_declared_is_named(tmp_path: Path) -> None:
    (tmp_path / "silver.click.yaml").write_text(GOOD)
    with pytest.raises(LakehouseError, match=r"silver\.click\.yaml: .*did you mean 'silver\.clicks'"):
        all_rules(tmp_path)


def test_sql_puts_other_names_in_place_of_the_columns() -> None:
    assert expressed("quantity > 0 and quantity<dwell_ms", quantity="e.q") == "e.q > 0 and e.q<dwell_ms"


def test_sql_leaves_names_that_only_contain_a_column() -> None:
    assert expressed("quantity_old > quantity", quantity="q") == "quantity_old > q"


def test_sql_leaves_strings() -> None:
    assert expressed("type = 'type' or type = 'it''s a type'", type="t") == "t = 'type' or t = 'it''s a type'"


def test_sql_leaves_functions_and_words_of_sql() -> None:
    assert expressed("offset (offset) > date'2000-01-01'", offset="o", date="d") == "offset (o) > date'2000-01-01'"
