"""Discovery: the modules that packages provide under a common name, so that leaving out a feature is deleting files."""

import importlib
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent  # not from settings, which are themselves put together by discovery
PACKAGES = ("local", "lake", "streaming", "expectations", "batch", "replay", "dashboard", "operations")
"""The packages that may provide something, in the order in which they may import each other."""


def provided(name: str) -> list[ModuleType]:
    """Import `<package>/<name>.py` from every package that has this file."""
    owners = [package for package in PACKAGES if (ROOT / package / f"{name}.py").is_file()]
    return [importlib.import_module(f"{package}.{name}") for package in owners]
