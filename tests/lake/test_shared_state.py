"""Shared state is reached through lake.location: no module above lake/ builds a path to it."""

import ast
from collections.abc import Iterator

import pytest

from config.floors import FLOORS, ROOT

SHARED = {
    *("warehouse", "checkpoints", "locks", "replays", "resets", "redrive", "comparisons", "imports"),
    *("ledger_proofs", "set_aside.json"),
}
ABOVE = FLOORS[FLOORS.index("lake") + 1 :]


def paths_to_shared_state(source: str) -> Iterator[int]:
    """Yield the lines that reach shared state by `settings.warehouse` or `settings.home / "…"`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr == "warehouse":
            yield node.lineno
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            parts = {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)}
            homes = [each for each in ast.walk(node) if isinstance(each, ast.Attribute) and each.attr == "home"]
            if homes and parts & SHARED:
                yield node.lineno


def test_no_module_above_the_lake_builds_a_path_to_shared_state() -> None:
    files = [file for floor in ABOVE for file in ((ROOT / floor).rglob("*.py"))]
    assert len(files) > 80
    found = [f"{file.relative_to(ROOT)}:{line}" for file in files for line in paths_to_shared_state(file.read_text())]
    assert found == []


@pytest.mark.parametrize(
    "line",
    ["x = settings.warehouse", *(f'x = self.settings.home / "{name}" / job' for name in sorted(SHARED))],
)
def test_a_path_to_shared_state_is_found(line: str) -> None:
    assert list(paths_to_shared_state(f"import os\n{line}\n"))


def test_a_file_of_the_process_alone_is_no_shared_state() -> None:
    assert not list(paths_to_shared_state('x = settings.home / "logs" / "spark.log"'))
