"""Durations and sizes in words, as declarations have them."""

import re
from datetime import timedelta
from typing import Any

_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
_BYTES = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def duration(text: Any) -> Any:
    """Parse '10 minutes' to a timedelta and 'never' to None."""
    if text == "never":
        return None
    match = re.fullmatch(r"(\d+) (second|minute|hour|day)s?", str(text))
    if not match:
        raise ValueError("it should be like '10 minutes' (seconds, minutes, hours, days), or 'never'")
    return timedelta(seconds=int(match[1]) * _UNITS[match[2]])


def retention(text: Any) -> Any:
    """Parse a retention time or size to the two Kafka topic settings."""
    if text == "forever":
        return {"retention.ms": "-1", "retention.bytes": "-1"}
    if match := re.fullmatch(r"(\d+) (KiB|MiB|GiB)", str(text)):
        return {"retention.ms": "-1", "retention.bytes": str(int(match[1]) * _BYTES[match[2]])}
    if match := re.fullmatch(r"(\d+) (hour|day)s?", str(text)):
        return {"retention.ms": str(int(match[1]) * _UNITS[match[2]] * 1000), "retention.bytes": "-1"}
    raise ValueError("it should be 'forever', a time like '7 days' or a size like '1 GiB'")
