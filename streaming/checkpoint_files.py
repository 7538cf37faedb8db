"""Spark's files in a checkpoint: read, and checked before a query starts, because Spark names none that is damaged."""

import json
import re
from typing import Any

from config.errors import LakehouseError
from config.files import DamagedFileError
from lake.location import Location


def logged(file: Location, line: int) -> dict[str, Any]:
    """Read the JSON object in a line of a file."""
    try:
        text = (file.read() or "").splitlines()[line]
        return dict(json.loads(text[text.index("{") :]))  # some lines start with a version, such as v1
    except (IndexError, ValueError):
        raise DamagedFileError(file, _way_out(file)) from None


def ensure_readable(checkpoint: Location) -> None:
    """Check the files from which a query continues: none is damaged, and none is missing."""
    offsets, commits = _batches(checkpoint / "offsets"), _batches(checkpoint / "commits")
    if not offsets:
        return
    logged(checkpoint / "metadata", 0)
    last = [checkpoint / "offsets" / str(number) for number in offsets[-2:]]
    # Each file of offsets has a line for each input: one that has fewer lines than the other is cut off.
    least = max(3, *(len((file.read() or "").splitlines()) for file in last))
    for file in last:
        _ensure_whole(file, least)
    for number in commits[-1:]:
        _ensure_whole(checkpoint / "commits" / str(number), 2)
    expected = set(range(offsets[0], max(offsets + commits) + 1))
    for name, found, needed in (("offsets", offsets, expected), ("commits", commits, set(offsets[:-1]))):
        for number in sorted(needed - set(found))[:1]:
            file = checkpoint / name / str(number)
            raise LakehouseError(f"The checkpoint file {file} is missing.", _way_out(file))


def _ensure_whole(file: Location, least: int) -> None:
    """Check a file: its version, then JSON or a dash in each line."""
    lines = (file.read() or "").splitlines()
    try:
        if len(lines) < least or not re.fullmatch(r"v\d+", lines[0]):
            raise ValueError
        for line in lines[1:]:
            json.loads("0" if line == "-" else line)
    except ValueError:
        raise DamagedFileError(file, _way_out(file)) from None


def _batches(folder: Location) -> list[int]:
    return sorted(int(file.name) for file in folder.children("[0-9]*") if file.name.isdigit())


def _way_out(file: Location) -> str:
    """Return the command that replaces the checkpoint of a file: .../<job>/e<epoch>/[<folder>/]<file>."""
    found = re.search(r"/([^/]+)/e\d+/(?:[^/]+/)*[^/]+$", file.url)
    return f"lakehouse stream reset {found[1]}" if found else "lakehouse stream reset"
