"""A dbt model -> its SQL, and its YAML file with descriptions, a data test and a unit test."""

from pathlib import Path

from config.errors import LakehouseError
from operations.new.declared import declared
from operations.new.files import Files, render
from operations.new.names import check_name


def model(name: str, source: str, root: Path) -> Files:
    """Write a mart that counts the rows of a table by day."""
    table = declared(root).table(source, "silver", "gold")
    check_name(name, [file.stem for file in (root / "models").rglob("*.sql")])
    times = [column for column, found in table.columns.items() if found.type == "timestamp"]
    if not times:
        raise LakehouseError(f"{source} has no column of type timestamp by which its rows could be counted.")
    time = "event_time" if "event_time" in times else times[0]
    layer, _, short = source.partition(".")
    return render("model", name, {"layer": layer, "table": short, "time": time})
