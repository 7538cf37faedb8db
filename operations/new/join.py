"""A join of two streams within a time -> its gold table, its rules, its code, and its answer in the tests' oracle."""

from pathlib import Path

from config.errors import LakehouseError
from operations.new.declared import declared, oracle_view
from operations.new.files import Files, render
from operations.new.names import check_name, interval, singular


def join(name: str, left: str, right: str, root: Path, *, on: str | None = None, within: str = "1 hour") -> Files:
    """Write a join of each right event with the left events of the same key that happened shortly before it."""
    project = declared(root)
    tables = {side: project.events(table) for side, table in (("left", left), ("right", right))}
    check_name(name, project.gold())
    if left == right:
        raise LakehouseError(f"--left and --right are both {left}. Choose two tables.")
    on = on or project.topics[str(tables["right"].topic or tables["right"].lateness_of)].key or ""
    types = [project.column(table, on) for table in tables.values()]
    if types[0] != types[1]:
        raise LakehouseError(f"{left}.{on} is of type {types[0]}, {right}.{on} of type {types[1]}.")
    sides = {side: singular(table.name.partition(".")[2]) for side, table in tables.items()}
    columns = {f"{sides[side]}_{part}" for side in sides for part in ("event_id", "time")}
    if on in columns or on == "day":
        raise LakehouseError(f"--on is '{on}', a column that the join writes itself. Choose another column.")
    values = {
        "left": left,
        "right": right,
        "left_view": oracle_view(tables["left"]),
        "right_view": oracle_view(tables["right"]),
        "a": sides["left"],
        "b": sides["right"],
        "on": on,
        "on_type": types[0],
        "on_description": tables["left"].columns[on].description,
        "within": interval("--within", within),
    }
    return render("join", name, values)
