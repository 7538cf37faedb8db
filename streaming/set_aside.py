"""Set aside: records that break landing's code and that an operator has named, so that all others can land.

Such a record is archived as received and goes to quarantine with the rule `set_aside`; its value is not parsed. After a
fix, a redrive lands it and lifts the mark. The list is kept next to the tables, and is never shortened. A damaged list
is an error: without it, landing would break again, and the batch layer would parse records that the stream has not.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from config.files import DamagedFileError, reading
from config.settings import Settings
from lake.location import Location, storage

RULE = MARK = "set_aside"
Origin = tuple[str, int, int]
"""Topic, partition and offset of a record."""

RESTORE = (
    "Restore it from a backup, or write it again, one entry for each record:\n"
    '[{"topic": "clicks", "partition": 0, "offset": 1234, "reason": "…", "recorded_at": "2026-01-31T12:00:00+00:00"}]\n'
    "Those that have landed are in quarantine: lakehouse sql "
    "\"select topic, partition, offset from silver.quarantine where array_contains(rules, 'set_aside')\"\n"
    "Those that have not stop landing again: lakehouse stream bisect landing"
)
"""The way out of a damaged list."""


@dataclass(frozen=True)
class SetAside:
    """A record that was set aside: why, when, and when it was landed after all."""

    topic: str
    partition: int
    offset: int
    reason: str
    recorded_at: str
    lifted_at: str | None = None

    @property
    def origin(self) -> Origin:
        """Return what identifies the record."""
        return self.topic, self.partition, self.offset

    @property
    def condition(self) -> str:
        """Return the SQL condition that selects the record."""
        return f"(topic = '{self.topic}' and partition = {self.partition} and offset = {self.offset})"


def active(settings: Settings) -> list[SetAside]:
    """List the records that are set aside now."""
    return [each for each in _all(settings) if each.lifted_at is None]


def recorded(settings: Settings) -> list[SetAside]:
    """List the records that were ever set aside, those that landed after all too."""
    return _all(settings)


def set_aside(settings: Settings, origins: Iterable[Origin], reason: str) -> None:
    """Set records aside; hold landing's lock meanwhile."""
    known = {each.origin for each in active(settings)}
    new = [SetAside(*origin, reason, _now()) for origin in origins if origin not in known]
    _save(settings, [*_all(settings), *new])


def lift(settings: Settings, origins: Iterable[Origin]) -> None:
    """Let records land again: the code can process them now."""
    repaired, now = set(origins), _now()
    _save(
        settings,
        [
            replace(each, lifted_at=now) if each.lifted_at is None and each.origin in repaired else each
            for each in _all(settings)
        ],
    )


def mark(records: DataFrame, settings: Settings) -> DataFrame:
    """Mark the records of a frame that are set aside, for landing's parser; add no column if there are none."""
    conditions = [each.condition for each in active(settings)]
    return records.withColumn(MARK, F.expr(" or ".join(conditions))) if conditions else records


def _all(settings: Settings) -> list[SetAside]:
    file = _file(settings)
    content = file.read_bytes()
    if content is None:
        return []
    with reading(file, RESTORE):
        records = json.loads(content)
        if isinstance(records, list):
            return [SetAside(**each) for each in records]
    raise DamagedFileError(file, RESTORE)


def _save(settings: Settings, records: list[SetAside]) -> None:
    _file(settings).write(json.dumps([asdict(each) for each in records], indent=1))


def _file(settings: Settings) -> Location:
    return storage(settings) / "set_aside.json"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
