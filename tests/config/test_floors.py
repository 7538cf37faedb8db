"""Floors: no module imports a higher one, and an upward import is found anywhere in a module."""

from pathlib import Path

import pytest

from config.floors import FLOORS, ROOT, upward_imports


def test_no_module_imports_a_higher_floor() -> None:
    assert upward_imports() == []


def test_every_package_with_code_is_a_floor() -> None:
    packages = {file.parent.name for file in ROOT.glob("*/__init__.py")} - {"benchmarks"}
    assert packages <= set(FLOORS)


@pytest.mark.parametrize(
    "code",
    [
        "from batch.run import run\n",
        "import replay.run\n",
        "def late():\n    from operations import trace\n",
    ],
)
def test_an_import_that_points_upward_is_named_with_its_line(tmp_path: Path, code: str) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "tables.py").write_text("import json\nfrom config import files\n" + code)
    (found,) = upward_imports(tmp_path)
    assert found.startswith("lake/tables.py:") and " imports " in found
