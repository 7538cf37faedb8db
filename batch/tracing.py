"""Tracing in the batch layer: which of its rows are served, for `lakehouse trace`, which runs without Spark."""

from pathlib import Path

from batch import publications
from batch.segments import RUN, SEGMENT, path
from config.settings import Settings

LAYER = "batch"


def served(settings: Settings) -> dict[str, tuple[Path, str]]:
    """Return, for each published table, its path and the SQL condition that selects its served rows r."""
    publication = publications.served(settings)
    found = {}
    for name, segments in (publication.tables if publication else {}).items():
        by_run: dict[str, list[str]] = {}
        for segment, run in segments.items():
            by_run.setdefault(run, []).append(f"'{segment}'")
        which = (f"(r.{RUN} = '{run}' and r.{SEGMENT} in ({', '.join(days)}))" for run, days in by_run.items())
        found[name] = (path(settings, name), " or ".join(which) or "false")
    return found
