"""The terminal: the only place that prints, so that no record can control it.

A value that a producer chose may contain escape sequences, Rich markup, or a line break that starts a forged line.
Every string that is printed, also in a table, is one line of text: unprintable characters are escaped, markup is off.
"""

import sys
import traceback
from typing import Any

from rich.console import Console, RenderableType
from rich.status import Status
from rich.text import Text

MESSAGE: dict[str, Any] = {"highlight": False, "soft_wrap": True, "markup": False, "emoji": False}


def plain(value: object) -> str:
    """Return a value as one line of printable text: escapes for control, format and other unprintable characters."""
    text = value.decode(errors="backslashreplace") if isinstance(value, (bytes, bytearray)) else str(value)
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def styled(text: str, style: str) -> Text:
    """Return a text in a style, like a green check mark, to print or to put into a table."""
    return Text(plain(text), style)


class Terminal(Console):
    """A console that escapes every string."""

    def __init__(self, **options: Any) -> None:
        """Turn markup off, whatever else is asked for."""
        super().__init__(**{**options, **MESSAGE})

    def render_str(self, text: str, **options: Any) -> Text:
        """Escape a string; Rich calls this for each one, those in table cells included."""
        return super().render_str(plain(text), **options)

    def status(self, status: RenderableType, **options: Any) -> Status:
        """Show a spinner; Rich itself would read a string as markup."""
        return super().status(styled(status, "") if isinstance(status, str) else status, **options)

    def lines(self, text: str, style: str | None = None) -> None:
        """Print a text of several lines, such as an error."""
        self.print(*text.split("\n"), sep="\n", style=style)

    def error(self, error: BaseException) -> None:
        """Print the traceback of an unexpected error, whose message may quote a record."""
        self.lines("".join(traceback.format_exception(error)).rstrip())


def print_tracebacks_safely() -> None:
    """Let the interpreter print an uncaught error through the terminal."""
    sys.excepthook = lambda _type, error, _traceback: Terminal(stderr=True).error(error)
