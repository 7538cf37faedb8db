"""The command line: mounts the `commands` module of every package, and prints errors without a traceback."""

import atexit
import contextlib
import importlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import typer
from typer._click import Context
from typer._click.exceptions import NoSuchOption
from typer.core import TyperGroup

from config.errors import LakehouseError
from config.settings import RENAMED_OPTIONS, load_settings
from config.terminal import Terminal, print_tracebacks_safely

PACKAGES = ("local", "lake", "streaming", "expectations", "batch", "replay", "dashboard", "operations")
HELP = """Lambda and Kappa on the same events, with Kafka, Spark, Delta and dbt.

Start with:  lakehouse doctor  ·  lakehouse demo
"""


class Commands(TyperGroup):
    """All commands; an option that was renamed is an error that names the new one."""

    def invoke(self, ctx: Context) -> Any:
        """Run the command that was named."""
        try:
            return super().invoke(ctx)
        except NoSuchOption as error:
            command = error.ctx.command_path.removeprefix(ctx.command_path) if error.ctx else ""
            if renamed := RENAMED_OPTIONS.get(f"{command} {error.option_name}".strip()):
                raise LakehouseError(f"{error.option_name} is now called {renamed}.") from None
            raise


def build() -> typer.Typer:
    """Mount every `commands.py` of the packages: to remove a feature, delete its files."""
    app = typer.Typer(
        cls=Commands, help=HELP, no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False
    )
    for name in PACKAGES:
        for module in _command_modules(name):
            app.add_typer(importlib.import_module(module).app)
    return app


def run() -> None:
    """Run a command and exit the process with its exit code.

    The process ends with os._exit: idle Arrow threads sometimes abort it while the interpreter shuts down, even after
    a command that succeeded.
    """
    code = 1  # for an uncaught error

    def leave() -> None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(BrokenPipeError):  # the reader has closed the pipe
                stream.flush()
        os._exit(code)

    atexit.register(leave)  # registered first, so it runs last
    print_tracebacks_safely()
    os.umask(0o077)  # everything that a command or a server that it starts writes is for its owner only
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
    """Run a command; for a LakehouseError, print a message and exit with its code, without a traceback."""
    try:
        build()()
    except LakehouseError as error:
        _print(error)
        sys.exit(error.exit_code)
    except Exception:
        if not (errors := _damages()):
            raise
        for each in errors:
            _print(each)
        sys.exit(errors[0].exit_code)


def _print(error: LakehouseError) -> None:
    console = Terminal(stderr=True)
    console.lines(error.problem, style="red")
    if error.hint:
        console.lines(error.hint)


def _damages() -> list[LakehouseError]:
    """Look for damaged tables after an unexpected error, which seldom names the file that caused it."""
    from lake.damage import damages

    return [LakehouseError(f"{each.file} {each.problem}.", each.hint) for each in damages(load_settings())[:10]]


def _command_modules(package: str) -> list[str]:
    """Find the modules by their files: importing the packages to look into them would take seconds."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        return []  # a project without this feature
    root = Path(found.origin).parents[1]
    files = (file.relative_to(root).with_suffix("") for file in (root / package).rglob("commands.py"))
    return sorted(".".join(file.parts) for file in files)


if __name__ == "__main__":
    run()
