"""A dbt mart -> its SQL, and its YAML file with descriptions, data tests and a unit test."""

import re
from pathlib import Path

from config.declarations import Table
from config.errors import LakehouseError
from operations.new.declared import declared
from operations.new.files import Files, render
from operations.new.names import check_name

KAFKA_COLUMNS = ("partition", "offset", "content_hash", "event_date")


def model(name: str, source: str, root: Path) -> Files:
    """Write a mart that counts the rows of a table by day; a silver table without a staging model gets one."""
    table = declared(root).table(source, "silver", "gold")
    check_name(name, [file.stem for file in (root / "models").rglob("*.sql")])
    layer, _, short = source.partition(".")
    if layer == "gold":
        time = _time(source, [column for column, found in table.columns.items() if found.type == "timestamp"])
        values = {"relation": f'served("{short}")', "time": time}
        values |= {"unit_test_input": f'"ref(\'{{{{ var(\\"architecture\\") }}}}_{short}\')"'}
        return render("model", name, values | {"source": source, "table": short})
    staging, times, files = _staging(table, root)
    values = {"relation": f'ref("{staging}")', "unit_test_input": f"ref('{staging}')", "time": _time(source, times)}
    return files | render("model", name, values | {"source": source, "table": short})


def _staging(table: Table, root: Path) -> tuple[str, list[str], Files]:
    """Find the staging model of a silver table and its time columns, or write the model."""
    short = table.name.partition(".")[2]
    times = [name for name, column in table.columns.items() if column.type == "timestamp"]
    for file in sorted((root / "models" / "staging").rglob("*.sql")):
        text = file.read_text()
        read = re.findall(r"""source\(\s*["']silver["'],\s*["'](\w+)["']\s*\)""", text)
        if short in read:
            return file.stem, [name for time in times if (name := _renamed(time, text))], {}
        if file.stem == f"stg_{short}":
            raise LakehouseError(f"{file.stem} reads silver.{read[0]}.", f"Use --from silver.{read[0]}")
    columns = {name: column for name, column in table.columns.items() if name not in KAFKA_COLUMNS}
    values = {"description": table.description, "key": table.key, "columns": columns}
    return f"stg_{short}", times, render("staging", short, values)


def _renamed(column: str, sql: str) -> str | None:
    """Find the name that a staging model gives to a column; None if it leaves it out."""
    found = re.search(rf"\b{column}\b(?: as (\w+))?", sql)
    return found and (found[1] or column)


def _time(source: str, times: list[str]) -> str:
    if not times:
        raise LakehouseError(f"{source} has no column of type timestamp by which its rows could be counted.")
    return "event_time" if "event_time" in times else times[0]
