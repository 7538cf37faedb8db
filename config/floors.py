"""Floors: a module imports its own floor or a lower one; `python -m config.floors` lists every import that does not.

`make lint` runs it. Discovery is the only way up: code on a higher floor is found by the name of its file
(`config.discovery.provided`, and the jobs, commands and demo steps), never named by a string, so a feature is removed
by deleting its files.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FLOORS = (
    *("config", "local", "lake", "streaming", "expectations"),
    *("batch", "replay", "dashboard", "operations", "lakehouse"),
)


def upward_imports(root: Path = ROOT) -> list[str]:
    """Return `file:line: floor imports higher floor` for every import that points upward."""
    found = []
    for height, floor in enumerate(FLOORS):
        files = sorted((root / floor).rglob("*.py")) or [root / f"{floor}.py"]
        for file in (file for file in files if file.exists()):
            for line, package in _imported(file):
                if package in FLOORS[height + 1 :]:
                    found.append(f"{file.relative_to(root)}:{line}: {floor} imports {package}")
    return found


def _imported(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the top-level package of every import, including those inside functions."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module.partition(".")[0]


if __name__ == "__main__":
    upward = upward_imports()
    print("\n".join(upward) or f"Every module imports its own floor or a lower one: {' < '.join(FLOORS)}")
    sys.exit(bool(upward))
