"""Find a Java 17 or 21 for Spark and Kafka, or say how to install one.

`python -m config.java` prints the Java it found; `python -m config.java install` installs one on Debian and Ubuntu.
Only the standard library is imported, because setup runs this before the virtual environment exists.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from config.errors import LakehouseError

ACCEPTED = (17, 21)
# Spark 4 names this module on its command line; a trimmed runtime without it exits at start.
NEEDED_MODULE = "jdk.incubator.vector"
USUAL_FOLDERS = (
    "usr/lib/jvm/*",
    "usr/java/*",
    "opt/java",
    "opt/java/*",
    "opt/jdk*",
    "Library/Java/JavaVirtualMachines/*/Contents/Home",
    "opt/homebrew/opt/openjdk@*",
    "usr/local/opt/openjdk@*",
    "home/linuxbrew/.linuxbrew/opt/openjdk@*",
)
USUAL_FOLDERS_AT_HOME = (
    ".sdkman/candidates/java/*",
    ".jdks/*",
    "Library/Java/JavaVirtualMachines/*/Contents/Home",
)
HOW_TO_GET_ONE = """\
Debian, Ubuntu: make java     (or: sudo apt-get install openjdk-17-jre-headless)
Fedora:         sudo dnf install java-21-openjdk-headless
macOS:          brew install openjdk@17
Or point JAVA_HOME to a Java 17 or 21 you have."""

Run = Callable[[list[str]], int]

SHORT_RUN = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=512m")
"""JVM options for short runs: no C2 compiler, whose gain comes too late; a larger code cache, which C1 alone needs."""

JVM_OPTIONS = "SPARK_SUBMIT_OPTS"
"""The variable with JVM options that Spark's launcher reads."""

SHORT_RUN_RECORDS = 300_000
"""Work on a history of fewer records is a short run (docs/decisions/0035)."""


@dataclass(frozen=True)
class Java:
    """A usable Java, and the reasons why earlier candidates were skipped."""

    home: Path
    version: str
    skipped: tuple[str, ...] = ()

    @property
    def command(self) -> Path:
        """The java executable."""
        return self.home / "bin" / "java"


def find_java(environ: Mapping[str, str] = os.environ, root: Path = Path("/"), user_home: Path | None = None) -> Java:
    """Return the first Java 17 or 21 of JAVA_HOME, PATH and the usual folders below `root` and `user_home`."""
    skipped: list[str] = []
    seen: set[Path] = set()
    for where, command in _candidates(environ, root, user_home or Path.home()):
        if not os.access(command, os.X_OK):
            if where == "JAVA_HOME":
                skipped.append(f"JAVA_HOME={environ['JAVA_HOME']}: it has no bin/java")
            continue
        if command.resolve() in seen:
            continue
        seen.add(command.resolve())
        home, version, problem = _inspect(command)
        if not problem:
            return Java(home, version, tuple(skipped))
        skipped.append(f"{where}: {home}: {problem}")
    missing = "No Java 17 or 21 was found; Spark and Kafka need one."
    raise LakehouseError("\n".join([missing, *(f"  skipped {note}" for note in skipped)]), HOW_TO_GET_ONE)


def options_for(records: int, options: str) -> str:
    """Return the JVM options for work on so many records: those that were given, with those for short runs if few."""
    return with_short_run(options) if records < SHORT_RUN_RECORDS else options


def with_short_run(options: str) -> str:
    """Add the options for short runs to JVM options that were given, unless they are there."""
    given = options.split()
    return " ".join([*given, *(option for option in SHORT_RUN if option not in given)])


def install(run: Run | None = None, is_root: bool | None = None, apt: str | None = shutil.which("apt-get")) -> None:
    """Install a headless Java with apt-get, as root or with passwordless sudo."""
    run = run or _run
    is_root = os.geteuid() == 0 if is_root is None else is_root
    if not apt:
        raise LakehouseError("Java can be installed automatically only on Debian and Ubuntu.", HOW_TO_GET_ONE)
    if not is_root and run(["sudo", "-n", "true"]) != 0:
        raise LakehouseError("Installing Java needs root, or sudo without a password.", HOW_TO_GET_ONE)
    # env, because sudo drops variables; noninteractive, so that no package asks a question.
    as_root = [*([] if is_root else ["sudo", "-n"]), "env", "DEBIAN_FRONTEND=noninteractive"]
    run([*as_root, apt, "-qq", "update"])  # fails if one source is unreachable, though the package may be available
    for major in ACCEPTED:
        package = f"openjdk-{major}-jre-headless"
        if run(["apt-cache", "-q=2", "show", package]) == 0:
            print(f"Installing {package} ...", flush=True)
            if run([*as_root, apt, "-qq", "install", "-y", "--no-install-recommends", package]) == 0:
                return
            raise LakehouseError(f"apt-get could not install {package} (see above).", HOW_TO_GET_ONE)
    raise LakehouseError("The package lists of this machine contain neither Java 17 nor 21.", HOW_TO_GET_ONE)


def _candidates(environ: Mapping[str, str], root: Path, user_home: Path) -> Iterator[tuple[str, Path]]:
    if environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(environ["JAVA_HOME"]) / "bin" / "java"
    for folder in filter(None, environ.get("PATH", "").split(os.pathsep)):
        yield "PATH", Path(folder) / "java"
    for base, patterns in ((root, USUAL_FOLDERS), (user_home, USUAL_FOLDERS_AT_HOME)):
        for pattern in patterns:
            for home in sorted(base.glob(pattern)):
                yield "installed", home / "bin" / "java"


def _inspect(command: Path) -> tuple[Path, str, str]:
    """Return home, version and the reason to skip this Java (empty: it is usable)."""
    home = command.resolve().parent.parent
    release = home / "release"
    if release.is_file():
        facts = dict(re.findall(r'^(\w+)="(.*)"$', release.read_text(errors="replace"), re.MULTILINE))
        version, modules = facts.get("JAVA_VERSION", ""), facts.get("MODULES", NEEDED_MODULE)
    else:
        home, version = _query(command)
        modules = NEEDED_MODULE
    if not version:
        return home, "", "it does not report its version"
    if int(re.split(r"\D", version, maxsplit=1)[0] or 0) not in ACCEPTED:
        return home, version, f"it is Java {version}, not 17 or 21"
    if NEEDED_MODULE not in modules.split():
        return home, version, f"it is a trimmed Java without the module {NEEDED_MODULE}"
    return home, version, ""


def _query(command: Path) -> tuple[Path, str]:
    """Run a Java without a release file: only a shim itself (jenv, asdf, macOS) knows its real home."""
    try:
        done = subprocess.run(
            [command, "-XshowSettings:properties", "-version"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return command.parent.parent, ""
    facts = dict(re.findall(r"^\s*(java\.\w+) = (.*)$", done.stderr, re.MULTILINE))
    return Path(facts.get("java.home", command.parent.parent)), facts.get("java.version", "")


def _run(command: list[str]) -> int:
    """Run a command without standard input; show its output only if it installs."""
    shown = None if "install" in command else subprocess.DEVNULL
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=shown, stderr=shown, check=False).returncode
    except FileNotFoundError:
        return 127


def main(arguments: list[str]) -> int:
    """Find Java; with the argument `install`, install it if there is none."""
    try:
        try:
            java = find_java()
        except LakehouseError:
            if arguments != ["install"]:
                raise
            install()
            java = find_java()
    except LakehouseError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(f"Java {java.version} in {java.home}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
