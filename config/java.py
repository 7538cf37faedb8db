"""Java 17 or 21: find the one that Spark and Kafka run on, or say how to get one.

`python -m config.java` prints what it found; `python -m config.java install` gets one on Debian and Ubuntu.
Only the standard library is imported, because set-up runs this before there is a virtual environment.
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
# Spark 4 asks for this module on its command line; a trimmed runtime without it dies at the start.
NEEDED_MODULE = "jdk.incubator.vector"
USUAL_PLACES = (
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
USUAL_PLACES_AT_HOME = (
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
"""Options for what is over before the JVM's second compiler pays; without it there is too little room for code."""


@dataclass(frozen=True)
class Java:
    """A Java that will do, and what was passed over to get to it."""

    home: Path
    version: str
    passed_over: tuple[str, ...] = ()

    @property
    def command(self) -> Path:
        """The program to start."""
        return self.home / "bin" / "java"


def find_java(environ: Mapping[str, str] = os.environ, root: Path = Path("/"), user_home: Path | None = None) -> Java:
    """Take the first Java 17 or 21 of JAVA_HOME, PATH and the usual places below `root` and `user_home`."""
    passed_over: list[str] = []
    seen: set[Path] = set()
    for where, command in _candidates(environ, root, user_home or Path.home()):
        if not os.access(command, os.X_OK):
            if where == "JAVA_HOME":
                passed_over.append(f"JAVA_HOME={environ['JAVA_HOME']}: there is no bin/java in it")
            continue
        if command.resolve() in seen:
            continue
        seen.add(command.resolve())
        home, version, lack = _inspect(command)
        if not lack:
            return Java(home, version, tuple(passed_over))
        passed_over.append(f"{where}: {home}: {lack}")
    problem = "No Java 17 or 21 was found; Spark and Kafka need one."
    raise LakehouseError("\n".join([problem, *(f"  passed over {note}" for note in passed_over)]), HOW_TO_GET_ONE)


def install(run: Run | None = None, is_root: bool | None = None, apt: str | None = shutil.which("apt-get")) -> None:
    """Install a headless Java by apt-get, as root or with a sudo that asks for no password."""
    run = run or _run
    is_root = os.geteuid() == 0 if is_root is None else is_root
    if not apt:
        raise LakehouseError("Java can be installed for you only on Debian and Ubuntu.", HOW_TO_GET_ONE)
    if not is_root and run(["sudo", "-n", "true"]) != 0:
        raise LakehouseError("Installing Java needs root, or sudo without a password.", HOW_TO_GET_ONE)
    # env, because sudo drops variables; noninteractive, so that no package asks a question.
    as_root = [*([] if is_root else ["sudo", "-n"]), "env", "DEBIAN_FRONTEND=noninteractive"]
    run([*as_root, apt, "-qq", "update"])  # one unreachable source fails it though the package may be there: go on
    for major in ACCEPTED:
        package = f"openjdk-{major}-jre-headless"
        if run(["apt-cache", "-q=2", "show", package]) == 0:
            print(f"Installing {package} ...", flush=True)
            if run([*as_root, apt, "-qq", "install", "-y", "--no-install-recommends", package]) == 0:
                return
            raise LakehouseError(f"apt-get could not install {package} (see above).", HOW_TO_GET_ONE)
    raise LakehouseError("The package lists of this machine know neither Java 17 nor 21.", HOW_TO_GET_ONE)


def _candidates(environ: Mapping[str, str], root: Path, user_home: Path) -> Iterator[tuple[str, Path]]:
    if environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(environ["JAVA_HOME"]) / "bin" / "java"
    for folder in filter(None, environ.get("PATH", "").split(os.pathsep)):
        yield "PATH", Path(folder) / "java"
    for base, places in ((root, USUAL_PLACES), (user_home, USUAL_PLACES_AT_HOME)):
        for place in places:
            for home in sorted(base.glob(place)):
                yield "installed", home / "bin" / "java"


def _inspect(command: Path) -> tuple[Path, str, str]:
    """Tell home, version and what speaks against this Java (nothing: empty)."""
    home = command.resolve().parent.parent
    release = home / "release"
    if release.is_file():
        facts = dict(re.findall(r'^(\w+)="(.*)"$', release.read_text(errors="replace"), re.MULTILINE))
        version, modules = facts.get("JAVA_VERSION", ""), facts.get("MODULES", NEEDED_MODULE)
    else:
        home, version = _ask(command)
        modules = NEEDED_MODULE
    if not version:
        return home, "", "it does not say its version"
    if int(re.split(r"\D", version, maxsplit=1)[0] or 0) not in ACCEPTED:
        return home, version, f"it is Java {version}, not 17 or 21"
    if NEEDED_MODULE not in modules.split():
        return home, version, f"it is a trimmed Java without the module {NEEDED_MODULE}"
    return home, version, ""


def _ask(command: Path) -> tuple[Path, str]:
    """Run a Java without a release file: the real home of a shim (jenv, asdf, macOS) is known only to itself."""
    try:
        done = subprocess.run(
            [command, "-XshowSettings:properties", "-version"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return command.parent.parent, ""
    facts = dict(re.findall(r"^\s*(java\.\w+) = (.*)$", done.stderr, re.MULTILINE))
    return Path(facts.get("java.home", command.parent.parent)), facts.get("java.version", "")


def _run(command: list[str]) -> int:
    """Run a command without a terminal to ask on; show what it says only where it installs."""
    shown = None if "install" in command else subprocess.DEVNULL
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=shown, stderr=shown, check=False).returncode
    except FileNotFoundError:
        return 127


def main(arguments: list[str]) -> int:
    """Find Java, after installing it where that was asked for and none is there."""
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
