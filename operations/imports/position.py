"""Position: how far an import has come, stored after each confirmed batch, so that an interrupted import continues."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from config.files import reading
from config.settings import Settings
from lake.location import Location, storage

RESTORE = (
    "Write it again, then continue with --resume; `sent` may be too low, because landing finds records sent twice:\n"
    '{"records": ALL RECORDS, "earliest_ms": FIRST EVENT TIME IN MILLISECONDS, "sent": RECORDS SURELY IN THE TOPIC}'
)
"""The way out of a damaged position."""


@dataclass(frozen=True)
class Position:
    """The records of an import and their first event time, and how many Kafka has confirmed, in event-time order."""

    records: int
    earliest_ms: int
    sent: int = 0

    @property
    def finished(self) -> bool:
        """Return whether all records were sent."""
        return self.sent == self.records


def import_id(topic: str, mapping: Path, files: Sequence[Path]) -> str:
    """Identify an import by its topic and the contents of its files: a file may be moved, but not changed."""
    found = hashlib.sha256(topic.encode())
    for file in (mapping, *files):
        with file.open("rb") as content:
            found.update(hashlib.file_digest(content, "sha256").digest())
    return found.hexdigest()[:16]


def read_position(settings: Settings, id_: str) -> Position | None:
    """Read the position of an import; None if it has never begun."""
    file = _location(settings, id_)
    content = file.read_bytes()
    if content is None:
        return None
    with reading(file, RESTORE):
        return Position(**json.loads(content))


def write_position(settings: Settings, id_: str, position: Position) -> None:
    """Store the position of an import."""
    _location(settings, id_).write(json.dumps(asdict(position)))


def _location(settings: Settings, id_: str) -> Location:
    return storage(settings) / "imports" / f"{id_}.json"
