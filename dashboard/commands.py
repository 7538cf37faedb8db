"""Command of the report."""

from typing import Annotated

import typer
from rich.console import Console

from config.settings import load_settings

app = typer.Typer()
console = Console(highlight=False, soft_wrap=True)


@app.command()
def report(
    output: Annotated[str | None, typer.Option(help="Where to write it; reports/report.html of the home.")] = None,
) -> None:
    """Write what this home's runs have shown as one HTML page, which opens offline.

    Example: lakehouse report
    """
    from pathlib import Path

    from dashboard.report import write

    settings = load_settings()
    page = write(settings, Path(output) if output else None)
    console.print(f"The report: {page}")
