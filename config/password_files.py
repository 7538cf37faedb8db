"""Password files: a setting that names a file -> the password in it, which only its owner may read."""

from pathlib import Path

from config.errors import LakehouseError


def read_password(file: Path, key: str) -> str:
    """Return the password in a file; `key` is the setting that names the file."""
    try:
        if file.stat().st_mode & 0o077:
            raise LakehouseError(f"Others can read {key} {file}.", f"chmod 600 '{file}'")
        return file.read_text().strip()
    except OSError as error:
        raise LakehouseError(f"{key} cannot be read: {error}", "Correct the path or its permissions.") from None
