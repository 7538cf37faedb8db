"""Features: config/features.yaml -> the files of each, by which one is left out or its lines are counted."""

from fnmatch import fnmatchcase
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent  # not from settings: hooks run this where only PyYAML is installed


def features(root: Path = ROOT) -> dict[str, list[str]]:
    """Read what a project may be made without, and the patterns of its files."""
    found: dict[str, list[str]] = yaml.safe_load((root / "config" / "features.yaml").read_text())
    return found


def of_feature(feature: str, files: list[str], root: Path = ROOT) -> list[str]:
    """Pick those of some files, named from the root, that are a feature's own."""
    patterns = features(root)[feature]
    return [file for file in files if any(fnmatchcase(file, pattern) for pattern in patterns)]
