"""Figures: what the tables of operations know of a run -> the numbers of the report, none of them typed in."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import yaml

from batch import publications, segments
from config.declarations import table_named
from config.errors import LakehouseError
from config.settings import ROOT, Settings
from local.simulator.truth import read_truth
from operations import cost
from operations.cost import size_of
from streaming import generations, ledger
from streaming.tables import rows_at

RUN_NAME = "%Y%m%dT%H%M%S%f"
PATHS = {
    "stream": "Kappa and the speed layer: the stream",
    "batch": "Lambda: the batch layer",
    "replay": "Kappa: a replay",
}


@dataclass(frozen=True)
class Figures:
    """Everything the report shows."""

    flow: dict[str, int]
    """Where the records of the log went."""

    accuracy: list[dict[str, Any]]
    """By answer and hour, the share of page views that it counts, of those there were (see `accurate_by`)."""

    accurate_by: str
    """What tells how many there were: the truth of the simulator, or on one's own data the most complete answer."""

    comparisons: list[dict[str, Any]]
    costs: list[dict[str, Any]]
    lines: dict[str, int]
    """By feature, the lines of code that exist only for it."""

    stored: dict[str, int]
    """By layer, bytes on disk."""

    freshness: list[dict[str, Any]]
    """By answer and moment, the seconds from arrival until it could be seen; of records that came as time passed."""

    certificates: list[dict[str, Any]]

    @property
    def latest(self) -> dict[str, dict[str, Any]]:
        """By path, what its last run over the log cost: a replay with its proof and promotion, as a batch run is."""
        found = {row["path"]: row for row in self.costs if row["records"] and row["path"] in PATHS}
        if "replay" in found:
            generation = found["replay"]["what"].rpartition(" ")[2]
            steps = [
                row for row in self.costs if row["path"] == "replay" and row["what"].rpartition(" ")[2] == generation
            ]
            spent = {name: sum(row[name] for row in steps) for name in ("seconds", "cpu_seconds", "bytes_written")}
            found["replay"] = {**found["replay"], **spent}
        return found

    @property
    def reprocessings(self) -> list[dict[str, Any]]:
        """List each time that history was worked out anew: the commands it took, as recorded, and their cost."""
        tables = {str(each["generation"]): list(each["tables"]) for each in self.certificates}
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for row in self.costs:
            step, _, which = row["what"].rpartition(" ")
            if row["path"] == "batch":
                step, which = "run", row["what"]
            elif row["path"] != "replay":
                continue
            empty = {"path": row["path"], "which": which, "commands": [], "seconds": 0.0, "cpu_seconds": 0.0}
            each = found.setdefault((row["path"], which), empty | {"tables": tables.get(which, [])})
            each["commands"].append(f"{row['path']} {step.partition(' ')[0]}")
            each["seconds"] += row["seconds"]
            each["cpu_seconds"] += row["cpu_seconds"]
        return list(found.values())

    @property
    def late_share(self) -> float:
        """Say which part of the valid events came too late for the stream."""
        valid = self.flow["silver"] + self.flow["late"]
        return self.flow["late"] / valid if valid else 0.0


def gather(settings: Settings) -> Figures:
    """Read all figures of a home."""
    entries = ledger.entries(settings, ["landing"])
    first = [row for row in entries if row["generation"] == generations.FIRST]
    truth = _generated(settings)
    return Figures(
        flow={term: ledger.total(first, term) for term in ("input", *ledger.TERMS)},
        accuracy=_accuracy(settings, truth),
        accurate_by="were generated" if truth else "the most complete answer counts",
        comparisons=[
            json.loads(file.read_text()) for file in sorted((settings.home / "reports/comparisons").glob("*"))
        ],
        costs=cost.recorded(settings),
        lines=lines_of_features(),
        stored={layer: size_of(settings.warehouse / layer) for layer in ("bronze", "silver", "gold", "batch")},
        freshness=_freshness(settings, entries),
        certificates=_pages(settings, "replays/g*/certificate.json"),
    )


def _pages(settings: Settings, pattern: str) -> list[dict[str, Any]]:
    return [json.loads(file.read_text()) for file in sorted(settings.home.glob(pattern))]


@cache
def lines_of_features() -> dict[str, int]:
    """Count the lines of code of each feature by its list of files: no tests, benchmarks, blank lines or comments."""
    features = yaml.safe_load((ROOT / "config" / "features.yaml").read_text())
    found = {}
    for feature, patterns in features.items():
        files = {path for pattern in patterns for path in ROOT.glob(pattern.replace("/*", "/**/*")) if path.is_file()}
        own = [
            path
            for path in files
            if path.suffix in (".py", ".sql") and path.relative_to(ROOT).parts[0] not in ("tests", "benchmarks")
        ]
        lines = (line.strip() for path in own for line in path.read_text().splitlines())
        found[feature] = sum(1 for line in lines if line and not line.startswith(("#", "--")))
    return found


def _generated(settings: Settings) -> Mapping[str, int]:
    """Count the page views that were generated, by hour; none on one's own data, or while a simulation goes on."""
    try:
        return read_truth(settings).views
    except LakehouseError:
        return {}


def _accuracy(settings: Settings, truth: Mapping[str, int]) -> list[dict[str, Any]]:
    table = table_named("gold.views_per_minute")
    answers = {"stream, as it came": _hours(rows_at(table.path(settings.warehouse, generations.FIRST)))}
    served = generations.live(settings)[table.name]
    if served != generations.FIRST:
        answers[f"stream, replayed (generation {served})"] = _hours(rows_at(table.path(settings.warehouse, served)))
    batch = _published(settings, table.name)
    if batch is not None:
        answers["batch"] = _hours(batch)
    best = {
        hour: truth.get(f"{hour:%Y-%m-%dT%H:%M}", 0) if truth else max(each[hour] for each in answers.values())
        for hour in set().union(*answers.values())
    }
    return [
        {"answer": answer, "hour": hour, "accuracy": counted[hour] / most}
        for answer, counted in answers.items()
        for hour, most in sorted(best.items())
        if most
    ]


def _published(settings: Settings, name: str) -> pa.Table | None:
    served = publications.served(settings)
    if served is None:
        return None
    rows = rows_at(segments.path(settings, name))
    wanted = {(str(day), run) for day, run in served.tables[name].items()}
    pairs = zip(rows[segments.SEGMENT].to_pylist(), rows[segments.RUN].to_pylist(), strict=True)
    return rows.filter(pa.array([(str(day), run) in wanted for day, run in pairs], pa.bool_()))


def _hours(rows: pa.Table) -> Counter[datetime]:
    found: Counter[datetime] = Counter()
    if len(rows):
        hours = pc.floor_temporal(rows["window_start"], unit="hour").to_pylist()
        for hour, views in zip(hours, rows["views"].to_pylist(), strict=True):
            found[hour] += views
    return found


def _freshness(settings: Settings, entries: ledger.Entry) -> list[dict[str, Any]]:
    """Take the batches that were served, and landed within an hour of their newest record: others are of the past."""
    published = [
        (datetime.strptime(each.run, RUN_NAME).replace(tzinfo=UTC), each.published_at)
        for each in publications.publications(settings)
    ]
    since = generations.served_since(settings)
    found = []
    for row in sorted(entries, key=lambda row: row["recorded_at"]):
        seen, arrived = row["recorded_at"], row["max_arrival_time"]
        live = row["generation"] in since and seen >= since[row["generation"]]
        if not live or not arrived or not timedelta(0) <= seen - arrived < timedelta(hours=1):
            continue
        found.append({"answer": "stream", "at": seen, "seconds": (seen - arrived).total_seconds()})
        read_by = [at for began, at in published if began >= seen]
        if read_by:
            found.append({"answer": "batch", "at": seen, "seconds": (read_by[0] - arrived).total_seconds()})
    return found
