"""Files in the home: whole or not at all, whenever their writer is killed."""

import os
from pathlib import Path


def write_whole(file: Path, content: str | bytes) -> None:
    """Write a file so that who reads it finds all of it, old or new, also while another process writes it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    draft.write_bytes(content.encode() if isinstance(content, str) else content)
    draft.replace(file)
