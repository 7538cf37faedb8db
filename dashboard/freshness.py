"""Freshness: when records arrived, and when each answer had them -> seconds, of records that came as time passed.

The stream has a record when it has landed, the batch layer when a run that read it is published.
What counts is the record that waited longest in its micro-batch: the others are fresher. A batch that was waiting for
longer than an hour is of the past, as a history that is loaded is, and says nothing of how fresh an answer is.
"""

from bisect import bisect_left  # feature: batch
from datetime import datetime, timedelta
from statistics import quantiles
from typing import Any

import pyarrow as pa

from batch.publications import moments  # feature: batch
from config.settings import Settings
from lake import generations, ledger
from lake.tables import read_arrow

STREAM, BATCH = "stream", "batch"
PAST = timedelta(hours=1)
_COLUMNS = ("epoch", "batch", "min_arrival_time", "max_arrival_time", "recorded_at")


def freshness(settings: Settings) -> list[dict[str, Any]]:
    """Give, for each micro-batch that came as time passed, when and how long after its arrival each answer had it."""
    found: list[dict[str, Any]] = []
    published = moments(settings)  # feature: batch
    for arrived, seen in _landed(settings):
        found.append({"answer": STREAM, "at": seen, "seconds": (seen - arrived).total_seconds()})
        # feature: batch
        # Only a run that began afterwards has read it.
        first = bisect_left(published, (seen,))
        if first < len(published):
            waited = published[first][1] - arrived
            found.append({"answer": BATCH, "at": seen, "seconds": waited.total_seconds()})
        # end of feature: batch
    return found


def percentiles(rows: list[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """Say of each answer how fresh it was: half of the time, and nearly always."""
    found: dict[str, tuple[float, float]] = {}
    for answer in dict.fromkeys(row["answer"] for row in rows):
        seconds = [row["seconds"] for row in rows if row["answer"] == answer]
        if len(seconds) > 1:
            cuts = quantiles(seconds, n=20, method="inclusive")
            found[answer] = (cuts[9], cuts[18])
    return found


def _landed(settings: Settings) -> list[tuple[datetime, datetime]]:
    """Give the arrival of the oldest record, and the landing, of the batches of what was served when they landed."""
    found = []
    for generation, since in generations.served_since(settings).items():
        folder = ledger.folder(settings, "landing", generation)
        for row in _by_batch(read_arrow(folder, None, _COLUMNS)):
            # A ledger of before does not tell the earliest.
            arrived, seen = row["min_arrival_time_min"] or row["max_arrival_time_max"], row["recorded_at_max"]
            if seen >= since and arrived and timedelta(0) <= seen - arrived < PAST:
                found.append((arrived, seen))
    return sorted(found, key=lambda each: each[1])


def _by_batch(rows: pa.Table) -> list[dict[str, Any]]:
    """Put the partitions of a batch together."""
    if not len(rows):
        return []
    ends = [("min_arrival_time", "min"), ("max_arrival_time", "max"), ("recorded_at", "max")]
    return list(rows.group_by(["epoch", "batch"], use_threads=False).aggregate(ends).to_pylist())
