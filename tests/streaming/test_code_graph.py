"""The code graph: names lead to the definitions that they need, and only what they need is part of the result."""

from pathlib import Path

import pytest

from streaming.code_graph import Reached, Source, reach

JOB = '''"""A job."""
from shop import rates
from shop.helpers import total
from shop.registry import FORMATS as KNOWN

LIMIT = 10


def job(rows):
    """Add up."""
    if not rows:
        raise ValueError("no rows")
    return Job(result=total(rows) * rates.of("day") + LIMIT + len(KNOWN), provenance="e.id = r.id")
'''
HELPERS = """from shop.rounding import rounded


def total(rows: list[int]) -> int:
    result: int = sum(rows)
    return rounded(result)


def unrelated():
    return 1
"""
FILES = {
    "shop/__init__.py": "",
    "shop/job.py": JOB,
    "shop/helpers.py": HELPERS,
    "shop/rounding.py": "from shop.numbers import STEP\n\n\ndef rounded(n):\n    return n - n % STEP\n",
    "shop/numbers.py": "STEP, OTHER = 5, 6\n",
    "shop/rates.py": "RATES = {'day': 2}\n\n\ndef of(name):\n    return RATES[name]\n",
    "shop/registry.py": "FORMATS = []\nFORMATS.append('json')\n",
}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def reached(shop: Path, stops: tuple[str, ...] = ()) -> Reached:
    return reach(["shop.job.job"], Source(shop, frozenset({("Job", "provenance")})), stops)


def version(shop: Path) -> list[str]:
    return sorted(reached(shop).parts.values())


def replace(shop: Path, file: str, old: str, new: str) -> None:
    text = (shop / file).read_text()
    assert old in text
    (shop / file).write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("shop/job.py", "LIMIT = 10", "LIMIT = (\n    10  # why\n)"),
        ("shop/job.py", '    """Add up."""\n', ""),
        ("shop/job.py", '"""A job."""', '"""Another text."""'),
        ("shop/job.py", '"no rows"', '"There are no rows."'),
        ("shop/job.py", "e.id = r.id", "e.id = r.event_id"),
        ("shop/helpers.py", "return 1", "return 2"),
        ("shop/helpers.py", "def unrelated():", "def another():\n    return 3\n\n\ndef unrelated():"),
        ("shop/helpers.py", "rows: list[int]) -> int", "rows: list[float]) -> float"),
        ("shop/helpers.py", "result: int = ", "result = "),
    ],
)
def test_what_cannot_change_a_result_changes_nothing(shop: Path, file: str, old: str, new: str) -> None:
    before = version(shop)
    replace(shop, file, old, new)
    assert version(shop) == before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("shop/job.py", "LIMIT = 10", "LIMIT = 11"),
        ("shop/job.py", "if not rows", "if len(rows) < 2"),
        ("shop/helpers.py", "sum(rows)", "max(rows)"),
        ("shop/rounding.py", "n - n % STEP", "n + n % STEP"),
        ("shop/numbers.py", "= 5, 6", "= 7, 6"),
        ("shop/rates.py", "'day': 2", "'day': 3"),
        ("shop/registry.py", "append('json')", "append('csv')"),
        ("shop/job.py", "import total", "import unrelated as total"),
    ],
)
def test_what_a_job_uses_however_many_modules_away_changes_it(shop: Path, file: str, old: str, new: str) -> None:
    before = version(shop)
    replace(shop, file, old, new)
    assert version(shop) != before


def test_a_function_may_move_to_another_module(shop: Path) -> None:
    before = version(shop)
    (shop / "shop/steps.py").write_text(FILES["shop/rounding.py"])
    (shop / "shop/rounding.py").unlink()
    replace(shop, "shop/helpers.py", "from shop.rounding", "from shop.steps")
    assert version(shop) == before


def test_two_functions_may_not_be_exchanged(shop: Path) -> None:
    replace(shop, "shop/job.py", "total(rows)", "total(rows) + least(rows)")
    replace(shop, "shop/job.py", "import total", "import total, least")
    replace(shop, "shop/helpers.py", "def unrelated", "def least(rows):\n    return min(rows)\n\n\ndef unrelated")
    before = version(shop)
    replace(shop, "shop/job.py", "import total, least", "import total as least, least as total")
    assert version(shop) != before


def test_a_stop_is_not_followed_and_its_content_does_not_count(shop: Path) -> None:
    stops = ("shop.helpers.total", "shop.rates")
    stopped = reached(shop, stops)
    assert set(stopped.parts) == {"shop.job.job", "shop.job.LIMIT", "shop.registry.FORMATS", "shop.registry.<module>"}
    replace(shop, "shop/rates.py", "'day': 2", "'day': 3")
    replace(shop, "shop/helpers.py", "sum(rows)", "max(rows)")
    assert reached(shop, stops).parts == stopped.parts


def test_code_that_looks_names_up_reaches_its_whole_module(shop: Path) -> None:
    assert "shop.helpers.unrelated" not in reached(shop).parts
    replace(shop, "shop/helpers.py", "return rounded(result)", "return globals()['rounded'](result)")
    assert {"shop.helpers.unrelated", "shop.helpers.total"} <= set(reached(shop).parts)


def test_a_module_used_as_a_value_and_a_computed_import_reach_everything_they_may_need(shop: Path) -> None:
    replace(shop, "shop/job.py", 'rates.of("day")', 'getattr(rates, "of")("day")')
    assert "shop.rates.RATES" in reached(shop).parts
    replace(shop, "shop/rates.py", "return RATES", "return importlib.import_module(name) or RATES")
    replace(shop, "shop/rates.py", "RATES = ", "import importlib\n\nRATES = ")
    assert {"shop.helpers.unrelated", "shop.numbers.STEP"} <= set(reached(shop).parts)


def test_imports_inside_a_function_and_through_a_package_are_followed(shop: Path) -> None:
    (shop / "shop/__init__.py").write_text("from .helpers import unrelated\n")
    replace(shop, "shop/rates.py", "return RATES", "from shop import unrelated\n\n    return unrelated() + RATES")
    assert "shop.helpers.unrelated" in reached(shop).parts


@pytest.mark.parametrize("effect", ["for name in ('a', 'b'):\n    put(name)\n", "put(name for name in 'ab')\n"])
def test_what_a_module_does_when_it_is_imported_counts(shop: Path, effect: str) -> None:
    (shop / "shop/registry.py").write_text(f"FORMATS = []\nput = FORMATS.append\n{effect}")
    before = version(shop)
    replace(shop, "shop/registry.py", "name", "each")
    assert version(shop) != before


def test_strings_and_the_words_in_them_are_found(shop: Path) -> None:
    replace(shop, "shop/rates.py", "'day': 2", "'day': 'amount_cents > 0'")
    found = reached(shop)
    assert "amount_cents > 0" in found.strings
    assert "amount_cents" in found.words
    assert "no rows" not in found.strings
