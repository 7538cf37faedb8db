"""Freshness of the batch layer: it has a record when a run that read it is published."""

from bisect import bisect_left
from datetime import datetime

from batch.publications import moments
from config.settings import Settings
from streaming.freshness import Landing

ANSWER = "batch"
DESCRIPTION = "the batch layer has published it"


def served_at(settings: Settings, landings: list[Landing]) -> list[datetime | None]:
    """Return when each micro-batch was first published, or None; only a run that began after it landed has read it."""
    published = moments(settings)
    first = (bisect_left(published, (landing.landed,)) for landing in landings)
    return [published[run][1] if run < len(published) else None for run in first]
