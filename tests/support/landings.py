"""Micro-batches of landing as the ledger records them, without Spark and without records."""

from datetime import UTC, datetime, timedelta
from typing import Any

from config.settings import Settings
from lake import ledger
from lake.batch import Batch


def land(home: Settings, generation: int, batch: int, *waited: float) -> datetime:
    """Record a micro-batch that has just landed; `waited`: by partition, how long ago its oldest record arrived.

    Return when the oldest of all arrived.
    """
    now = datetime.now(UTC)
    came = {"job": "landing", "generation": generation, "epoch": 1, "batch": batch, "topic": "clicks"}
    entry: list[dict[str, Any]] = [
        {**came, "partition": number, "min_arrival_time": now - timedelta(seconds=seconds), "max_arrival_time": now}
        for number, seconds in enumerate(waited)
    ]
    common: dict[str, Any] = {"rows": None, "job": "landing", "epoch": 1, "settings": home}
    ledger.record_entry(entry, Batch(**common, id=batch, generation=generation))
    return now - timedelta(seconds=max(waited))
