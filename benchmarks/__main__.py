"""Run the benchmarks in a home of their own: all of them, or those named on the command line."""

import importlib
import json
import pkgutil
import shutil
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

import benchmarks
from config.settings import load_settings
from config.spark import session
from local.broker import Broker

console = Console(highlight=False)


def main(chosen: list[str]) -> None:
    """Print each figure, and keep them as JSON in the home."""
    found = [m.name for m in pkgutil.iter_modules(benchmarks.__path__) if not m.name.startswith("_")]
    results = Path(load_settings().home / "benchmarks.json")
    known = json.loads(results.read_text()) if results.exists() else {}
    for name in chosen or found:
        settings = load_settings()
        settings = settings.at(settings.home / f"bench-{name}")
        shutil.rmtree(settings.home, ignore_errors=True)
        broker = Broker(settings)
        broker.start()
        try:
            with console.status(f"Measuring {name} …"):
                known[name] = importlib.import_module(f"benchmarks.{name}").run(settings, session(settings, "bench"))
        finally:
            broker.stop()
        shutil.rmtree(settings.home, ignore_errors=True)
        table = Table(name, "")
        for figure, value in known[name].items():
            table.add_row(figure.replace("_", " "), f"{value:,}")
        console.print(table)
        results.write_text(json.dumps(known, indent=1))
    console.print(f"All figures: {results}")


main(sys.argv[1:])
