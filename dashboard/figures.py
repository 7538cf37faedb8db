"""Figures: the ops tables of a home -> the numbers of the report."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import yaml

from batch import fence, publications, segments
from config.errors import LakehouseError
from config.settings import ROOT, Settings
from lake import batch_log, costs, generations, ledger
from lake.location import Location, storage, table_location, warehouse
from lake.tables import read_arrow, scan_arrow
from local.simulator.truth import read_truth
from streaming.freshness import freshness

HOUR = timedelta(hours=1)
PATHS = {
    "stream": "Kappa and the speed layer: the stream",
    "batch": "Lambda: the batch layer",
    "replay": "Kappa: a replay",
}


@dataclass(frozen=True)
class Figures:
    """Everything the report shows."""

    flow: dict[str, int]
    """The number of records per outcome."""

    accuracy: list[dict[str, Any]]
    """By answer and hour, the share of page views that it counts; `accurate_by` names the reference."""

    accurate_by: str
    """The reference: the truth of the simulator, or for your own data the most complete answer."""

    comparisons: list[dict[str, Any]]
    costs: list[dict[str, Any]]
    lines: dict[str, int]
    """By feature, the lines of code that exist only for it."""

    stored: dict[str, int]
    """By layer, bytes on disk."""

    freshness: list[dict[str, Any]]
    """By answer and time, the seconds from a record's arrival until the answer had it; a backlog is not counted."""

    certificates: list[dict[str, Any]]

    @property
    def latest(self) -> dict[str, dict[str, Any]]:
        """Return, by path, the cost of its last run over the whole log, or else of its last run.

        The cost of a replay includes verification and promotion; that of a batch run includes checks and publication.
        """
        runs = sorted(self.costs, key=lambda row: row.get("whole") is not False)
        found = {row["path"]: row for row in runs if row["records"] and row["path"] in PATHS}
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
        """List every recomputation of history: its commands, as recorded, and their cost."""
        tables = {str(each["generation"]): list(each["tables"]) for each in self.certificates}
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for row in self.costs:
            step, _, which = row["what"].rpartition(" ")
            if row["path"] == "batch":
                step, which = "run", row["what"] + (", days that changed" if row.get("whole") is False else "")
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
        """Return the share of valid events that arrived too late for the stream."""
        valid = self.flow["silver"] + self.flow["late"]
        return self.flow["late"] / valid if valid else 0.0


def gather(settings: Settings) -> Figures:
    """Read all figures of a home."""
    truth = _generated(settings)
    return Figures(
        flow=_flow(settings),
        accuracy=_accuracy(settings, truth),
        accurate_by="were generated" if truth else "the most complete answer counts",
        comparisons=[
            file.read_json("lakehouse compare") or {}
            for file in (storage(settings) / "reports" / "comparisons").children()
        ],
        costs=costs.recorded_costs(settings),
        lines=lines_of_features(),
        stored={layer: (warehouse(settings) / layer).size() for layer in ("bronze", "silver", "gold", "batch")},
        freshness=freshness(settings),
        certificates=_certificates(settings),
    )


def _flow(settings: Settings) -> dict[str, int]:
    """Sum the outcomes of the records in the generation that landed them first; a replay reads them again."""
    terms = ("input", *ledger.TERMS)
    # The first generation's, unless the archive came from elsewhere, and a replay was the first to land it.
    of_generations = ledger.folder(settings, "landing", generations.FIRST).parent.parent.children("g[0-9]*")
    landings = [folder / "landing" for folder in of_generations if (folder / "landing").is_table()]
    first = min(landings, key=lambda folder: int(folder.parent.name[1:]), default=None)
    rows = read_arrow(first, None, terms) if first else pa.table({})
    return {term: int(pc.sum(rows[term]).as_py() or 0) if len(rows) else 0 for term in terms}


def _certificates(settings: Settings) -> list[dict[str, Any]]:
    replays = (storage(settings) / "replays").children("g*")
    found = [(each / "certificate.json").read_json(f"lakehouse replay verify {each.name[1:]}") for each in replays]
    return [values for values in found if values is not None]


@cache
def lines_of_features() -> dict[str, int]:
    """Count the lines of code of each feature's files, without tests, benchmarks, blank lines and comments."""
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
    """Read the generated page views by hour; empty for your own data, or while a simulation runs."""
    try:
        return read_truth(settings).views
    except LakehouseError:
        return {}


def _accuracy(settings: Settings, truth: Mapping[str, int]) -> list[dict[str, Any]]:
    """Compute the accuracy of each answer for the closed hours; an open hour is left out."""
    name = "gold.views_per_minute"
    served = generations.live(settings)[name]
    kept = {generations.FIRST: "stream, as it came"}
    kept.setdefault(served, f"stream, replayed (generation {served})")
    answers = {answer: _hours(table_location(settings, name, number)) for number, answer in kept.items()}
    closed = [batch_log.closed_until(settings, "views_per_minute", number) for number in kept]
    published = publications.served_publication(settings)
    if published is not None:
        answers["batch"] = _hours(segments.path(settings, name), segments.rows_of(published.tables[name]))
        closed.append(fence.of_run(settings, published.run).complete_until)
    over = max((moment for moment in closed if moment), default=datetime.max.replace(tzinfo=UTC))
    best = {
        hour: truth.get(f"{hour:%Y-%m-%dT%H:%M}", 0) if truth else max(each[hour] for each in answers.values())
        for hour in set().union(*answers.values())
        if hour <= over - HOUR
    }
    return [
        {"answer": answer, "hour": hour, "accuracy": counted[hour] / most}
        for answer, counted in answers.items()
        for hour, most in sorted(best.items())
        if most and counted and hour <= max(counted)  # a generation that is no longer served ends early
    ]


def _hours(path: Location, which: pc.Expression | None = None) -> Counter[datetime]:
    """Sum the views of each hour in chunks, so that a table of any size fits in memory."""
    found: Counter[datetime] = Counter()
    hour = pc.floor_temporal(pc.field("window_start"), unit="hour")
    for rows in scan_arrow(path, {"hour": hour, "views": pc.field("views")}, which):
        added = pa.table(rows).group_by("hour", use_threads=False).aggregate([("views", "sum")]).to_pylist()
        found.update({row["hour"]: row["views_sum"] for row in added})
    return found
