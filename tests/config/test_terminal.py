"""The terminal: what a record contains is shown as text, whatever it is; and nothing else prints."""

import ast
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.live import Live
from rich.table import Table

import lakehouse
from config.errors import LakehouseError
from config.floors import FLOORS
from config.settings import ROOT, Settings
from config.terminal import Terminal, plain, styled

HOSTILE = "[/x][red]:smile:\x1b]0;title\x07\x1b[2J\x9b1A\r\n✓ all is well\u202eevil\u2028\ud800\x00"
SHOWN = r"[/x][red]:smile:\x1b]0;title\x07\x1b[2J\x9b1A\r\n✓ all is well\u202eevil\u2028\ud800\x00"  # each on one line
SETUP = {"config/java.py", "config/ivy.py", "config/jars.py", "config/floors.py", "operations/cds_archive.py"}
"""Run before the packages are installed, or print only what they were built from."""

FILES_AND_EXPORTS = {"operations/dbt/commands.py"}
"""Prints shell code for `eval`, which has to be exact, and names of files."""


def table(value: str) -> Table:
    found = Table(value, title=value, caption=value)
    found.add_row(value)
    return found


WAYS: list[Callable[[Terminal], Any]] = [
    lambda terminal: terminal.print(HOSTILE),
    lambda terminal: terminal.print(f"event {HOSTILE}", style="red"),
    lambda terminal: terminal.print("event", HOSTILE, markup=None),
    lambda terminal: terminal.print(styled(HOSTILE, "green")),
    lambda terminal: terminal.print(table(HOSTILE)),
    lambda terminal: terminal.print(terminal.status(HOSTILE).renderable),
    lambda terminal: terminal.lines(HOSTILE.replace("\n", "")),
    lambda terminal: terminal.error(ValueError(HOSTILE.replace("\n", ""))),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("tty", [True, False])
def test_a_hostile_value_is_printed_as_text(way: Callable[[Terminal], Any], tty: bool) -> None:
    terminal = Terminal(file=io.StringIO(), width=400, record=True, force_terminal=tty)
    way(terminal)
    printed = terminal.export_text()
    assert SHOWN.replace(r"\n", "") in printed.replace(r"\n", "")
    assert all(each.isprintable() for each in printed.replace("\n", ""))


def test_a_hostile_value_in_a_live_table_is_text() -> None:
    terminal = Terminal(file=io.StringIO(), width=400, record=True, force_terminal=True)
    with Live(table(HOSTILE), console=terminal):
        pass
    assert SHOWN in terminal.export_text()


def test_bytes_that_are_no_text_are_escaped_too() -> None:
    assert plain(b"\xff\x1b[2J ok") == r"\xff\x1b[2J ok"
    assert plain("Zoë · 商品 · 10 €") == "Zoë · 商品 · 10 €"


def test_the_message_of_an_error_is_text(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise LakehouseError(f"first {HOSTILE.replace(chr(10), '')}\nsecond", "a\nhint")

    monkeypatch.setattr(lakehouse, "build", lambda: fail)
    with pytest.raises(SystemExit):
        lakehouse.main()
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["first " + SHOWN.replace(r"\n", ""), "second", "a", "hint"]


def test_an_event_id_that_is_markup_is_traced(fresh_home: Settings, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr("sys.argv", ["lakehouse", "trace", "[/x]\x1b[2J"])
    with pytest.raises(SystemExit) as end:
        lakehouse.main()
    assert end.value.code == 1
    assert r"No table contains '[/x]\x1b[2J'" in capsys.readouterr().out


def modules() -> Iterator[tuple[str, ast.Module]]:
    folders = [ROOT / floor for floor in FLOORS if (ROOT / floor).is_dir()]
    for file in [ROOT / "lakehouse.py", *(file for folder in folders for file in folder.rglob("*.py"))]:
        yield file.relative_to(ROOT).as_posix(), ast.parse(file.read_text())


PRINTS = {"echo", "secho", "echo_via_pager", "stdout", "stderr", "__stdout__", "__stderr__", "print"}
PRINTS |= {"print_exc", "print_exception"}
DRAWS = {"Live", "Progress", "Status", "track"}
"""What draws on Rich's own console unless it is given another."""


def unescaped(name: str, tree: ast.Module) -> Iterator[str]:
    """Name what a module does that prints, and does not go through the terminal."""
    drawing = {
        each.asname or each.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("rich.")
        for each in node.names
        if each.name in DRAWS
    }
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module="rich" | "rich.console" | "rich.markup" | "rich.text" | "rich.pretty"):
                yield f"{name}:{node.lineno} imports {node.module}"
            case ast.Import() if any(each.name.partition(".")[0] == "rich" for each in node.names):
                yield f"{name}:{node.lineno} imports all of rich"
            case ast.ImportFrom(module="typer" | "click" | "sys" | "builtins" | "traceback"):
                if name not in SETUP and PRINTS & {each.name for each in node.names}:
                    yield f"{name}:{node.lineno} imports what prints"
            case ast.Attribute(value=ast.Name(id="builtins"), attr="print") if name not in SETUP:
                yield f"{name}:{node.lineno} calls print"
            case ast.Call(func=ast.Name(id="print")) if name not in SETUP:
                yield f"{name}:{node.lineno} calls print"
            case ast.Call(func=ast.Attribute(value=ast.Name(id="typer" | "click"), attr="echo" | "secho")):
                if name not in FILES_AND_EXPORTS:
                    yield f"{name}:{node.lineno} calls echo"
            case ast.Attribute(value=ast.Attribute(attr="stdout" | "stderr"), attr="write"):
                yield f"{name}:{node.lineno} writes to the standard output"
            case ast.Attribute(attr="print_exception" | "print_exc"):
                yield f"{name}:{node.lineno} prints a traceback"
            case ast.Call(func=ast.Name(id=drawn)) if drawn in drawing:
                if all(each.arg != "console" for each in node.keywords):
                    yield f"{name}:{node.lineno} draws on another console"
            case ast.keyword(arg="markup", value=ast.Constant(value=True)):
                yield f"{name}:{node.lineno} switches markup on"


def test_nothing_else_prints() -> None:
    found = [each for name, tree in modules() if name != "config/terminal.py" for each in unescaped(name, tree)]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        "from rich.console import Console",
        "from rich import print",
        "print(row)",
        "typer.echo(row)",
        "sys.stdout.write(row)",
        "traceback.print_exc()",
        "from rich.live import Live\nwith Live(refresh_per_second=4) as live: ...",
        "from rich.progress import Progress\nwith Progress() as shown: ...",
        "from rich.progress import track as followed\nfor row in followed(rows): ...",
        "from rich.status import Status\nStatus('…').start()",
        "import rich\nrich.print(row)",
        "import rich.console as output\noutput.Console().print(row)",
        "from typer import echo\necho(row)",
        "from click import secho as said\nsaid(row)",
        "from sys import stdout\nstdout.write(row)",
        "import builtins\nbuiltins.print(row)",
        "from traceback import print_exc\nprint_exc()",
        "console.print(row, markup=True)",
    ],
)
def test_the_rule_notices_another_way_to_print(code: str) -> None:
    assert list(unescaped(str(Path("any.py")), ast.parse(code)))
