"""The command line: mounts the `commands` module of every package, and says errors in words."""

import importlib
import pkgutil
import sys

import typer
from rich.console import Console

from config.errors import LakehouseError

PACKAGES = ("local", "streaming", "batch", "expectations", "operations", "dashboard")
HELP = """Lambda and Kappa on the same events, on the real parts.

Begin with:  lakehouse doctor  ·  lakehouse demo
"""


def build() -> typer.Typer:
    """Mount every `commands.py` found in the packages, so that leaving out a feature is deleting its files."""
    app = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False)
    for name in PACKAGES:
        for module in _command_modules(name):
            app.add_typer(importlib.import_module(module).app)
    return app


def main() -> None:
    """Run a command; a mistake of the user is a message and an exit code, not a traceback."""
    try:
        build()()
    except LakehouseError as error:
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        console.print(error.problem, style="red", markup=False)
        if error.mend:
            console.print(error.mend, markup=False)
        sys.exit(error.exit_code)


def _command_modules(package: str) -> list[str]:
    try:
        folder = importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        return []  # this feature was left out
    modules = [module.name for module in pkgutil.walk_packages(folder.__path__, f"{package}.")]
    return [name for name in modules if name.rpartition(".")[2] == "commands"]


if __name__ == "__main__":
    main()
