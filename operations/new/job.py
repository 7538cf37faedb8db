"""A windowed job -> its gold table, its rules, its code, and its answer in the oracle of the tests."""

from datetime import timedelta
from pathlib import Path

from config.declarations import Table
from config.errors import LakehouseError
from operations.new.declared import Declared, declared, oracle_view
from operations.new.files import Files, render
from operations.new.names import Interval, check_name, interval

DAY = timedelta(days=1)
OWN_COLUMNS = ("window_start", "window_end", "session_start", "session_end", "events", "day")


def job(
    name: str,
    source: str,
    root: Path,
    *,
    key: str | None = None,
    window: str | None = None,
    slide: str | None = None,
    session_gap: str | None = None,
    total: str | None = None,
) -> Files:
    """Write a job that counts events by key in windows or in sessions, and adds up a column if one is named."""
    project = declared(root)
    table = project.events(source)
    check_name(name, project.gold())
    key = _key(project, table, key)
    values = {
        "source": source,
        "view": oracle_view(table),
        "key": key,
        "key_type": project.column(table, key),
        "key_description": table.columns[key].description,
        "total": total,
    }
    if total:
        # Sums of doubles depend on the order of the events: stream and batch would differ in the last digits.
        project.column(table, total, "int", "bigint")
    if session_gap:
        if window or slide:
            raise LakehouseError("--session-gap does not go with --window or --slide: a session is its own window.")
        return render("session", name, values | {"gap": interval("--session-gap", session_gap)})
    return render("window", name, values | _window(window or "1 hour", slide))


def _window(window: str, slide: str | None) -> dict[str, object]:
    long = interval("--window", window)
    step = interval("--slide", slide) if slide else None
    if step and step.length > long.length:
        raise LakehouseError(f"--slide is {step.text}, longer than --window, {long.text}: events would be left out.")
    overlaps = step is not None and step.length < long.length
    starts = f" that start every {step.text}" if step and overlaps else ""
    return {
        "window": long,
        "slide": step if overlaps else None,
        "step": step if overlaps else long,
        "shape": f"windows of {long.text}{starts}",
        "starts": -(-long.length // step.length) if step and overlaps else 1,
        "crosses_days": _crosses_days(long, overlaps=overlaps),
    }


def _crosses_days(window: Interval, *, overlaps: bool) -> bool:
    """Tell whether a window can hold events of two days."""
    return overlaps or bool(DAY % window.length)


def _key(project: Declared, table: Table, key: str | None) -> str:
    """Take the key of the table's topic unless another column is named."""
    key = key or project.topics[str(table.topic or table.lateness_of)].key or table.key[0]
    project.column(table, key, "string", "int", "bigint", "boolean", "date")
    if key in OWN_COLUMNS:
        raise LakehouseError(f"--key is '{key}', a column that the job writes itself. Choose another column.")
    return key
