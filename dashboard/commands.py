"""The command `report`."""

from typing import Annotated

import typer

from config.settings import load_settings
from config.terminal import Terminal

app = typer.Typer()
console = Terminal()


@app.command()
def report(
    output: Annotated[str | None, typer.Option(help="Output file; default: reports/report.html in the home.")] = None,
) -> None:
    """Write a report of this home's runs as one HTML page that works offline.

    Example: lakehouse report
    """
    from pathlib import Path

    from dashboard.report import write

    settings = load_settings()
    page = write(settings, Path(output) if output else None)
    console.print(f"The report: {page}")
