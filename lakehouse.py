"""The command line: mounts the `commands` module of every package, and says errors in words."""

import atexit
import contextlib
import importlib
import importlib.util
import os
import sys
from pathlib import Path

import typer
from rich.console import Console

from config.errors import LakehouseError

PACKAGES = ("local", "lake", "streaming", "expectations", "batch", "replay", "dashboard", "operations")
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


def run() -> None:
    """Run a command in a process of its own, which ends with the command's exit code.

    Threads of Arrow that still wait for work now and then abort a process in the interpreter's very last steps, also
    after a command that succeeded: these steps are left out.
    """
    code = 1  # of an error that nobody caught

    def leave() -> None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(BrokenPipeError):  # nobody reads on
                stream.flush()
        os._exit(code)

    atexit.register(leave)  # first of all, so that it comes last
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        raise
    except KeyboardInterrupt:
        code = 130
        raise


def main() -> None:
    """Run a command; a mistake of the user is a message and an exit code, not a traceback."""
    try:
        build()()
    except LakehouseError as error:
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        console.print(error.problem, style="red", markup=False)
        if error.hint:
            console.print(error.hint, markup=False)
        sys.exit(error.exit_code)


def _command_modules(package: str) -> list[str]:
    """Find the modules by their files: to import a package just to look into it takes seconds."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        return []  # this feature was left out
    root = Path(found.origin).parents[1]
    files = (file.relative_to(root).with_suffix("") for file in (root / package).rglob("commands.py"))
    return sorted(".".join(file.parts) for file in files)


if __name__ == "__main__":
    run()
