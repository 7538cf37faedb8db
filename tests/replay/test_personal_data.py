"""Personal data: a home in which every part has run has them in the archive alone."""

from typing import Any

from handmade import Lake
from personal_data import leaks

from lake.location import table_location
from lake.tables import read_arrow

EMAILS = "@example.com"
"""The end of every e-mail address that the simulator makes; what comes before it is the user's id."""


def test_a_scan_finds_none_beyond_the_archive(lake: Lake, against: dict[str, Any]) -> None:
    assert against
    users = read_arrow(table_location(lake.settings, "bronze.events"), None, ["value"])["value"].to_pylist()
    assert sum(EMAILS.encode() in (value or b"") for value in users) > 10
    assert leaks(lake.settings, [EMAILS]) == set()
