"""Waiting for Kafka: live commands wait while Kafka is down, report it, and resume when it is back."""

from collections.abc import Iterable
from datetime import datetime

from config.errors import LakehouseError
from config.kafka import end_offsets
from config.settings import Settings


def answers(settings: Settings, topics: Iterable[str]) -> bool:
    """Return whether Kafka answers for all partitions of some topics."""
    try:
        end_offsets(settings, topics)
    except LakehouseError:
        return False
    return True


def waiting_for_kafka(since: datetime) -> str:
    """Say that a reader or a writer waits."""
    return f"waiting for Kafka, which does not answer since {since.astimezone():%H:%M:%S}"
