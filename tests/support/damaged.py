"""Damage: a table loses a file."""

from pathlib import Path
from urllib.parse import unquote

import deltalake


def lose_a_file(table: Path) -> Path:
    """Delete one of a table's data files."""
    lost = max(Path(file.removeprefix("file://")) for file in map(unquote, deltalake.DeltaTable(table).file_uris()))
    lost.unlink()
    return lost
