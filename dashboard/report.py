"""The report: figures, charts and verdict -> one self-contained HTML page."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader

from config.errors import LakehouseError
from config.settings import Settings
from dashboard import charts
from dashboard.figures import PATHS, gather
from dashboard.verdict import verdict
from streaming.freshness import percentiles


def write(settings: Settings, where: Path | None = None) -> Path:
    """Write the page and return its path."""
    figures = gather(settings)
    if not figures.flow["input"]:
        raise LakehouseError("Nothing was landed in this home yet: there is nothing to report.", "lakehouse demo")
    reports = settings.home / "reports"
    latest = figures.latest
    costs = [{**latest[path], "mib": latest[path]["bytes_written"] / 2**20} for path in PATHS if path in latest]
    links = {
        name: path.relative_to(reports)
        for name, path in {
            "Data Docs": reports / "data-docs" / "index.html",
            "dbt docs": reports / "dbt" / "static_index.html",
        }.items()
        if path.exists()
    }
    pages = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True)
    pages.globals["differing"] = _differing
    page = pages.get_template("report.html").render(
        figures=figures,
        verdict=verdict(figures),
        made=datetime.now(UTC),
        paths=PATHS,
        costs=costs,
        freshness=percentiles(figures.freshness),
        done=[row for row in figures.costs if row["path"] in PATHS],
        links=links,
        charts={
            "accuracy": charts.accuracy(figures.accuracy) if figures.accuracy else "",
            "freshness": charts.freshness(figures.freshness) if figures.freshness else "",
            "flow": charts.flow(figures.flow),
            "parity": [(each["at"], charts.parity(each["tables"])) for each in _first_and_last(figures.comparisons)],
            "cpu": charts.costs(costs, "cpu_seconds", "CPU-seconds") if costs else "",
            "wall": charts.costs(costs, "seconds", "seconds") if costs else "",
            "written": charts.costs(costs, "mib", "MiB written") if costs else "",
        },
    )
    target = where or reports / "report.html"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page)
    return target


def _differing(tables: dict[str, dict[str, dict[str, int]]]) -> int:
    return sum(sum(each["by_reason"].values()) for each in tables.values())


def _first_and_last(comparisons: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [comparisons[0], comparisons[-1]] if len(comparisons) > 1 else comparisons
