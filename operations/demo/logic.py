"""A change of logic, as someone may ship it one day: only views of more than a second count."""

from dataclasses import replace

from streaming.job import Job, job_named
from streaming.roles.aggregator.views_per_minute import CLICKS


def job() -> Job:
    """Define version 2 of views_per_minute, next to the live version."""
    live = job_named("views_per_minute")
    return replace(
        live,
        version=2,
        module=__name__,
        query=replace(
            live.query,
            transform=lambda tables: live.apply({**tables, CLICKS: tables[CLICKS].filter("dwell_ms > 1000")}),
        ),
    )
