"""Run the benchmarks in a home of their own: all of them, or those named on the command line."""

import importlib
import json
import pkgutil
import shutil
import subprocess
import sys

from rich.table import Table

import benchmarks
from config.home import make_home
from config.settings import load_settings
from config.spark import session
from config.terminal import Terminal
from local.broker import Broker

console = Terminal()


def main(chosen: list[str]) -> None:
    """Measure each in a process of its own: what one leaves behind must not change what the next one measures."""
    found = [m.name for m in pkgutil.iter_modules(benchmarks.__path__) if not m.name.startswith("_")]
    for name in chosen or found:
        if len(chosen) == 1:
            measure(name)
        else:
            subprocess.run([sys.executable, "-m", "benchmarks", name], check=True)


def measure(name: str) -> None:
    """Print the figures, and keep them as JSON in the home."""
    settings = load_settings()
    results = settings.home / "benchmarks.json"
    make_home(settings)
    settings = settings.at(settings.home / f"bench-{name}")
    shutil.rmtree(settings.home, ignore_errors=True)
    broker = Broker(settings)
    broker.start()
    try:
        with console.status(f"Measuring {name} …"):
            figures = importlib.import_module(f"benchmarks.{name}").run(settings, session(settings, "bench"))
    finally:
        broker.stop()
    shutil.rmtree(settings.home, ignore_errors=True)
    table = Table(name, "")
    for figure, value in figures.items():
        table.add_row(figure.replace("_", " "), f"{value:,}")
    console.print(table)
    known = json.loads(results.read_text()) if results.exists() else {}
    results.write_text(json.dumps({**known, name: figures}, indent=1))
    console.print(f"All figures: {results}")


main(sys.argv[1:])
