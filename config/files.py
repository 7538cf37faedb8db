"""Atomic writes of files in the home."""

import os
from pathlib import Path


def write_whole(file: Path, content: str | bytes) -> None:
    """Write a file atomically: a concurrent reader sees the old content or the new, never a part."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    draft.write_bytes(content.encode() if isinstance(content, str) else content)
    draft.replace(file)
