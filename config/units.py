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
    """Parse a retention time, size or both to Kafka's two topic settings; the first that is reached counts."""
    if text == "forever":
        return {"retention.ms": "-1", "retention.bytes": "-1"}
    limits = {"retention.ms": "-1", "retention.bytes": "-1"}
    for limit in str(text).split(" and "):
        if (match := re.fullmatch(r"(\d+) (hour|day)s?", limit)) and limits["retention.ms"] == "-1":
            limits["retention.ms"] = str(int(match[1]) * _UNITS[match[2]] * 1000)
        elif (match := re.fullmatch(r"(\d+) (KiB|MiB|GiB)", limit)) and limits["retention.bytes"] == "-1":
            limits["retention.bytes"] = str(int(match[1]) * _BYTES[match[2]])
        else:
            raise ValueError("it should be 'forever', a time like '7 days', a size like '1 GiB', or '7 days and 1 GiB'")
    return limits
