"""Batch: the rows of one write, which tables it reads and writes, and the transaction id of its commits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from pyspark.sql import DataFrame

from config.settings import Settings
from lake.location import Location, table_location


@dataclass(frozen=True)
class Batch:
    """One micro-batch of a job: its rows and its position (generation, epoch, id)."""

    rows: DataFrame
    job: str
    id: int
    epoch: int
    generation: int
    settings: Settings

    records: int = 0
    """Kafka records in it, counted by offsets."""

    part: Literal["", "close", "history"] = ""
    """What it is if it is no micro-batch: rows finalized on request, or history computed in one bounded pass."""

    closed_until: datetime | None = None
    """The watermark: rows that are final before this event time no longer change; None for a job without state."""

    already_landed: Mapping[str, int] = field(default_factory=dict)
    """By topic, the last offset that may already be in the tables, from an unfinished batch or another generation."""

    is_replay: bool = False
    """A replay sees all of history: it sets no event aside as late, and it does not write the archive."""

    input_generations: Mapping[str, int] = field(default_factory=dict)
    """The generation of each input table that differs from the batch's own."""

    dropped: Callable[[], int] = lambda: 0
    """Counts the rows of the batch that Spark has dropped behind the watermark; known once its rows were computed."""

    def generation_of(self, name: str) -> int:
        """Return the generation in which this batch reads or writes a table."""
        return self.input_generations.get(name, self.generation)

    def location(self, name: str) -> Location:
        """Return the location of a table that this batch reads or writes."""
        return table_location(self.settings, name, self.generation_of(name))

    @property
    def txn_app_id(self) -> str:
        """Return Delta's application id; it contains the epoch, so that a new checkpoint's batches are not skipped."""
        own = f"{self.job}/g{self.generation}/e{self.epoch}"
        return f"{own}/{self.part}" if self.part else own
