"""Files in the home: written atomically, on disk when the call returns; a damaged one is an error with a way out."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from config.errors import LakehouseError


def write_whole(file: Path, content: str | bytes, *, private: bool = False) -> None:
    """Write a file atomically: a reader, and whoever comes after a power cut, sees the old content or the new.

    private: nobody but the owner can read it, whatever the umask of the process.
    """
    draft = write_draft(file, content, private=private)
    draft.replace(file)
    sync_folder(file.parent)


def write_draft(file: Path, content: str | bytes, *, private: bool = False) -> Path:
    """Write the content of a file next to it, down to the disk; return the draft."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{uuid4().hex}")
    draft.touch(mode=0o600 if private else 0o666)
    with draft.open("wb") as opened:
        opened.write(content.encode() if isinstance(content, str) else content)
        opened.flush()
        os.fsync(opened.fileno())
    return draft


def sync_folder(folder: Path) -> None:
    """Write a folder's names to the disk: without this, a power cut can undo a rename."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def decode(text: str | bytes, file: object, hint: str) -> dict[str, Any]:
    """Parse a JSON object that we have written; name the file if it is empty, cut off or something else."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise DamagedFileError(file, hint)
    return values


@contextmanager
def reading(file: object, hint: str) -> Iterator[None]:
    """Name a file of ours in an error that its content causes: it is no JSON, or has other fields than we wrote."""
    try:
        yield
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        raise DamagedFileError(file, hint) from None


def read_port(file: Path) -> int | None:
    """Read a port that we have written; None without a file, and for a file that is empty or no port."""
    text = file.read_text(errors="replace").strip() if file.exists() else ""
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text) < 2**16 else None


class DamagedFileError(LakehouseError):
    """A file of ours that is empty, cut off or otherwise unreadable."""

    def __init__(self, file: object, hint: str) -> None:
        super().__init__(f"{file} is damaged: it is empty, cut off, or was changed.", hint)
