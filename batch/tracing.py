"""Tracing: the served rows of the batch layer, for `lakehouse trace`, which runs without Spark."""

from batch import publications
from batch.segments import RUN, SEGMENT, path
from config.settings import Settings
from lake.location import Location

LAYER = "batch"


def served_rows(settings: Settings) -> dict[str, tuple[Location, str]]:
    """Return, for each published table, its location and the SQL condition for its served rows `r`."""
    publication = publications.served_publication(settings)
    found = {}
    for name, segments in (publication.tables if publication else {}).items():
        by_run: dict[str, list[str]] = {}
        for segment, run in segments.items():
            by_run.setdefault(run, []).append(f"'{segment}'")
        which = (f"(r.{RUN} = '{run}' and r.{SEGMENT} in ({', '.join(days)}))" for run, days in by_run.items())
        found[name] = (path(settings, name), " or ".join(which) or "false")
    return found
