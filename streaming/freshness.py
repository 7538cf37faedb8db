"""Freshness: when records arrived, and when each answer had them -> seconds, for records that came as time passed.

The stream has a record when it has landed. A package with another answer provides a `freshness.py` that returns when
that answer had it.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import quantiles
from typing import Any

import pyarrow as pa

from config.discovery import provided
from config.settings import Settings
from lake import generations, ledger
from lake.tables import read_arrow

ANSWER = "stream"
DESCRIPTION = "the stream has landed it"
# A micro-batch that waited longer was history that someone loaded: it does not show how fresh an answer is.
LONGEST_WAIT = timedelta(hours=1)
_COLUMNS = ("epoch", "batch", "min_arrival_time", "max_arrival_time", "recorded_at")


@dataclass(frozen=True)
class Landing:
    """A micro-batch: when its oldest record arrived, and when it had landed."""

    arrived: datetime
    landed: datetime


def freshness(settings: Settings) -> list[dict[str, Any]]:
    """Return, for each micro-batch and answer, how many seconds after its arrival the answer had the oldest record."""
    landings = _landings(settings)
    return [
        {"answer": module.ANSWER, "at": landing.landed, "seconds": (served - landing.arrived).total_seconds()}
        for module in provided("freshness")
        for landing, served in zip(landings, module.served_at(settings, landings), strict=True)
        if served
    ]


def answers() -> dict[str, str]:
    """Return the answers whose freshness is measured, each with what it means that it has a record."""
    return {module.ANSWER: module.DESCRIPTION for module in provided("freshness")}


def served_at(_settings: Settings, landings: list[Landing]) -> list[datetime | None]:
    """Return when the stream had each micro-batch: as soon as it landed."""
    return [landing.landed for landing in landings]


def percentiles(rows: list[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """Return the median and the 95th percentile of each answer that has at least two micro-batches."""
    found: dict[str, tuple[float, float]] = {}
    for answer in dict.fromkeys(row["answer"] for row in rows):
        seconds = [row["seconds"] for row in rows if row["answer"] == answer]
        if len(seconds) > 1:
            cuts = quantiles(seconds, n=20, method="inclusive")
            found[answer] = (cuts[9], cuts[18])
    return found


def _landings(settings: Settings) -> list[Landing]:
    """List the micro-batches that landed as their records came, in the generation that was served at the time."""
    found = []
    for generation, since in generations.served_since(settings).items():
        folder = ledger.folder(settings, "landing", generation)
        for row in _by_batch(read_arrow(folder, None, _COLUMNS)):
            # An older ledger does not have the earliest arrival.
            arrived, landed = row["min_arrival_time_min"] or row["max_arrival_time_max"], row["recorded_at_max"]
            if landed >= since and arrived and timedelta(0) <= landed - arrived < LONGEST_WAIT:
                found.append(Landing(arrived, landed))
    return sorted(found, key=lambda landing: landing.landed)


def _by_batch(rows: pa.Table) -> list[dict[str, Any]]:
    """Combine the partitions of each micro-batch."""
    if not len(rows):
        return []
    ends = [("min_arrival_time", "min"), ("max_arrival_time", "max"), ("recorded_at", "max")]
    return list(rows.group_by(["epoch", "batch"], use_threads=False).aggregate(ends).to_pylist())
