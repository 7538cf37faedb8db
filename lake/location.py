"""Location: where something is stored, and the few operations on it. Everything that is shared is reached through it.

Tables, checkpoints, manifests and certificates are shared: they can move to an object store while the home of each
process (logs, ports, temporary files) stays local. Only the local disk is implemented; another store adds its scheme
here and nowhere else.
"""

import fnmatch
import os
import shutil
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deltalake

from config import locks
from config.declarations import table_named
from config.files import decode, sync_folder, write_draft, write_whole
from config.settings import Settings


@dataclass(frozen=True, order=True)
class Location:
    """A file, a folder or a Delta table, by its address: a plain path on the local disk."""

    url: str

    def __truediv__(self, name: str) -> "Location":
        return Location(f"{self.url}/{name}")

    def __str__(self) -> str:
        """Return the address as Spark, SQL and delta-rs take it."""
        return self.url

    @property
    def name(self) -> str:
        """Return the last part of the address."""
        return self.url.rpartition("/")[2]

    @property
    def parent(self) -> "Location":
        """Return the folder that contains it."""
        return Location(self.url.rpartition("/")[0])

    def read(self) -> str | None:
        """Return the text of a file, or None if there is no file."""
        content = self.read_bytes()
        return None if content is None else content.decode()

    def read_bytes(self) -> bytes | None:
        """Return the content of a file, or None if there is no file."""
        try:
            return self._path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, content: str | bytes) -> None:
        """Write a file completely or not at all, also if the process is killed meanwhile."""
        write_whole(self._path, content)

    def create(self, content: str) -> bool:
        """Write a file unless it exists; return whether this call created it."""
        draft = write_draft(self._path, content)
        try:
            os.link(draft, self._path)  # fails if the file exists, and never shows a part of it
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        sync_folder(self._path.parent)
        return True

    def read_json(self, hint: str) -> dict[str, Any] | None:
        """Return the JSON object in a file, or None if there is no file; `hint` is the way out if it is damaged."""
        content = self.read_bytes()
        return None if content is None else decode(content, self, hint)

    def children(self, pattern: str = "*") -> list["Location"]:
        """List what is directly below, by name, sorted; drafts and other hidden files are left out."""
        try:
            names = sorted(path.name for path in self._path.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [self / name for name in names if not name.startswith(".") and fnmatch.fnmatchcase(name, pattern)]

    def exists(self) -> bool:
        """Return whether there is a file here, or anything below."""
        return self._path.is_file() or any(True for _ in self.children())

    def size(self) -> int:
        """Return the bytes of the file, or of all files below."""
        if self._path.is_file():
            return self._path.stat().st_size
        return sum(file.stat().st_size for file in self._path.rglob("*") if file.is_file())

    def free(self) -> int:
        """Return the bytes that can still be written here."""
        existing = next(path for path in (self._path, *self._path.parents) if path.exists())
        return shutil.disk_usage(existing).free

    def remove(self) -> None:
        """Remove the file, or everything below."""
        if self._path.is_file():
            self._path.unlink(missing_ok=True)
        else:
            shutil.rmtree(self._path, ignore_errors=True)

    def claim(self, job: str) -> AbstractContextManager[None]:
        """Hold this file as the lock of a job; raise an error that names the holder if another process has it."""
        return locks.claim(self._path, job)

    def claimed_by(self) -> dict[str, Any] | None:
        """Return the process that holds this file as a lock, or None."""
        return locks.claimed_by(self._path)

    def is_table(self) -> bool:
        """Return whether a Delta table is here; a log without a commit, left by a kill, is no readable table."""
        return self._path.is_dir() and deltalake.DeltaTable.is_deltatable(self.url)

    def table(self) -> deltalake.DeltaTable:
        """Open the Delta table."""
        return deltalake.DeltaTable(self.url)

    @property
    def _path(self) -> Path:
        return Path(self.url)


def storage(settings: Settings) -> Location:
    """Return the root of everything that is shared."""
    return Location(str(settings.home))


def warehouse(settings: Settings) -> Location:
    """Return the root of all tables."""
    return Location(settings.warehouse)


def table_location(settings: Settings, name: str, generation: int = 1) -> Location:
    """Return the location of a table; silver and gold have a folder for each generation."""
    layer, _, short = name.partition(".")
    folder = warehouse(settings) / layer / short
    return folder / f"g{generation}" if table_named(name).has_generations else folder
