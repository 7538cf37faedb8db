"""Run the Ivy that pyspark ships, show its progress, and explain a failure."""

import importlib.util
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol
from xml.sax.saxutils import quoteattr

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from config.errors import LakehouseError
from config.java import find_java
from config.settings import Settings
from config.terminal import Terminal

ATTEMPTS = 2  # Ivy continues where it stopped; most failures are a repository's temporary errors
HINT = """\
Check the network (Java takes proxies from JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=... -Dhttps.proxyPort=...), or name your
company's mirror: LAKEHOUSE_MAVEN_MIRROR=<address>, or LAKEHOUSE_IVY_SETTINGS=<an Ivy settings file>.
Then run `make setup` again; it continues where it stopped."""


class Meter(Protocol):
    """A callback that shows how many jars were found and downloaded."""

    def __call__(self, found: int, arrived: int) -> None:
        """Show the two counts."""


def resolve(settings: Settings, ivy_file: Path, target: Path, cache: Path, expected: int) -> None:
    """Download the jars of `ivy_file` into `target`, one folder per Ivy configuration."""
    with tempfile.TemporaryDirectory() as folder, _meter(expected) as meter:
        command = [
            str(find_java().command),
            f"-Divy.default.ivy.user.dir={cache}",  # by default Ivy reads and writes ~/.ivy2
            *("-jar", str(_ivy_jar())),
            *("-cache", str(cache)),
            *_settings_option(settings, Path(folder)),
            *("-ivy", str(ivy_file)),
            # Relative to the working folder: Ivy would read brackets in an absolute path as part of the pattern.
            *("-retrieve", "[conf]/[artifact]-[revision](-[classifier]).[ext]"),
        ]
        for attempt in range(ATTEMPTS):
            code, log = _run(command, target, meter)
            if code == 0:
                return
            if attempt + 1 < ATTEMPTS:
                time.sleep(1)
    raise LakehouseError("The jars could not be downloaded. Ivy's output:\n" + "\n".join(error_lines(log)), HINT)


def mirror_settings(address: str) -> str:
    """Return an Ivy settings file that replaces Maven Central by one Maven repository."""
    return f"""<ivysettings>
  <settings defaultResolver="mirror"/>
  <resolvers>
    <ibiblio name="mirror" m2compatible="true" root={quoteattr(address.rstrip("/") + "/")}/>
  </resolvers>
</ivysettings>
"""


def error_lines(log: list[str], lines: int = 8) -> list[str]:
    """Return the error lines of Ivy's output, without the passwords in addresses."""
    clean = [re.sub(r"//[^/@\s]*@", "//", line.strip(" \t:")) for line in log]
    reasons = [line for line in clean if re.search(r"error|exception|failed|refused|unknown ?host|denied", line, re.I)]
    return [f"  {line}" for line in list(dict.fromkeys(reasons or filter(None, clean)))[-lines:]]


def _settings_option(settings: Settings, folder: Path) -> list[str]:
    if settings.ivy_settings:
        if not settings.ivy_settings.is_file():
            raise LakehouseError(
                f"There is no Ivy settings file {settings.ivy_settings}.", "Correct or unset LAKEHOUSE_IVY_SETTINGS."
            )
        return ["-settings", str(settings.ivy_settings.absolute())]
    if settings.maven_mirror:
        file = folder / "ivysettings.xml"
        file.write_text(mirror_settings(settings.maven_mirror))
        return ["-settings", str(file)]
    return []  # Ivy's default: Maven Central


def _run(command: list[str], folder: Path, meter: Meter) -> tuple[int, list[str]]:
    """Run Ivy in `folder`, count the jars that its output names; return exit code and output."""
    log: list[str] = []
    found = arrived = 0
    with subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as ivy:
        for line in ivy.stdout or ():
            log.append(line.rstrip())
            found += line.startswith("\tfound ")
            arrived += "[SUCCESSFUL ]" in line
            meter(found, arrived)
    return ivy.returncode, log


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    found = sorted(Path(spec.origin).parent.glob("jars/ivy-*.jar")) if spec and spec.origin else []
    if not found:
        raise LakehouseError("There is no Ivy in the pyspark package.", "Run `make setup` again.")
    return found[-1]


@contextmanager
def _meter(expected: int) -> Iterator[Meter]:
    """Show a progress bar on a terminal, and otherwise a line from time to time."""
    if not sys.stderr.isatty():
        print(f"Downloading {expected or 'the'} jars (about a minute, once) ...", file=sys.stderr, flush=True)
        yield _lines(expected)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Terminal(stderr=True)) as progress:
        bar = progress.add_task("Looking up jars (once)", total=expected or None)

        def show(found: int, arrived: int) -> None:
            if arrived:
                progress.update(bar, completed=arrived, description="Downloading jars (once)")
            else:
                progress.update(bar, completed=found)

        yield show


def _lines(expected: int, every: int = 20) -> Meter:
    shown = 0

    def show(found: int, arrived: int) -> None:  # noqa: ARG001 - looking up takes too short to report
        nonlocal shown
        if arrived >= shown + every:
            shown = arrived
            print(f"  {arrived} of {expected or '?'} jars", file=sys.stderr, flush=True)

    return show
