"""Doctor: checks everything that the project needs on this machine, and names a fix for each failure."""

import os
import platform
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass

from config.declarations import tables, topics
from config.errors import LakehouseError
from config.home import make_home, open_to_others
from config.jars import verify
from config.java import find_java
from config.kafka import end_offsets, servers
from config.rules import all_rules
from config.settings import Settings, load_settings
from config.terminal import Terminal, styled
from lake.damage import damages
from local.broker import Broker

MEMORY_GIB = 4
DISK_GIB = 5


@dataclass(frozen=True)
class Finding:
    """The result of one check: its subject, whether it passed, what it found, and a hint how to fix it."""

    subject: str
    passed: bool
    found: str
    hint: str = ""


def run_checks(console: Terminal) -> int:
    """Print every finding; return 0 if all checks passed, 1 otherwise."""
    findings = [_configuration()]
    if findings[0].passed:
        settings = load_settings()
        checks: list[Callable[[Settings], Finding]] = [
            _python,
            _java,
            _jars,
            _memory,
            _disk,
            _home,
            _declarations,
            _ports,
            _log,
            _tables,
        ]
        findings += [_checked(check, settings) for check in checks]
    for finding in findings:
        mark = styled("✓", "green") if finding.passed else styled("✗", "red")
        first, *more = finding.found.split("\n")
        console.print(mark, f"{finding.subject:<14} {first}")
        if more:
            console.print(*more, sep="\n")
        if finding.hint and not finding.passed:
            console.lines(f"  {'':<14} → {finding.hint}")
    return 0 if all(finding.passed for finding in findings) else 1


def _checked(check: Callable[[Settings], Finding], settings: Settings) -> Finding:
    try:
        return check(settings)
    except LakehouseError as error:
        return Finding(check.__name__.strip("_"), False, error.problem, error.hint)


def _configuration() -> Finding:
    try:
        settings = load_settings()
    except LakehouseError as error:
        return Finding("configuration", False, error.problem, error.hint)
    return Finding(
        "configuration", True, f"home {settings.home}, {settings.spark.cores} cores, {settings.spark.memory}"
    )


def _python(_settings: Settings) -> Finding:
    passed = (3, 11) <= sys.version_info[:2] <= (3, 13)
    return Finding("python", passed, platform.python_version(), "Install Python 3.11 to 3.13, then: make purge setup")


def _java(_settings: Settings) -> Finding:
    java = find_java()
    return Finding("java", True, f"{java.version} at {java.home}")


def _jars(settings: Settings) -> Finding:
    count = verify(settings)
    return Finding("jars", True, f"{count} jars, each with its recorded SHA-256")


def _memory(settings: Settings) -> Finding:
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return Finding(
        "memory",
        gib >= MEMORY_GIB,
        f"{gib:.1f} GiB, of which a Spark session takes {settings.spark.memory}",
        f"{MEMORY_GIB} GiB are needed; or lower spark.memory in the settings.",
    )


def _disk(settings: Settings) -> Finding:
    folder = settings.home
    while not folder.exists():
        folder = folder.parent
    gib = shutil.disk_usage(folder).free / 2**30
    hint = "Free some space, or set LAKEHOUSE_HOME to a folder on a larger disk."
    return Finding("disk", gib >= DISK_GIB, f"{gib:.1f} GiB free", hint)


def _home(settings: Settings) -> Finding:
    make_home(settings)
    if mode := open_to_others(settings):
        return Finding(
            "home",
            False,
            f"{settings.home} can be read by others ({mode})",
            f"chmod -R go= {shlex.quote(str(settings.home))}",
        )
    return Finding(
        "home", os.access(settings.home, os.W_OK), str(settings.home), "Make it writable, or set LAKEHOUSE_HOME."
    )


def _declarations(_settings: Settings) -> Finding:
    return Finding(
        "declarations", True, f"{len(topics())} topics, {len(tables())} tables, {len(all_rules())} rules: all valid"
    )


def _tables(settings: Settings) -> Finding:
    found = damages(settings)
    if not found:
        return Finding("tables", True, "no file is damaged or missing")
    more = f"   ({len(found) - 1} more)" if len(found) > 1 else ""
    return Finding("tables", False, f"{found[0].file} {found[0].problem}{more}", found[0].hint)


def _ports(settings: Settings) -> Finding:
    port = settings.kafka.port
    if settings.kafka.servers or port is None:
        return Finding("ports", True, "chosen when needed, then reused")
    return Finding(
        "ports",
        not Broker(settings).port_is_taken(),
        f"{port} for the broker, as configured",
        f"Port {port} is taken by another program: stop it, or set LAKEHOUSE_KAFKA__PORT to another.",
    )


def _log(settings: Settings) -> Finding:
    if not settings.kafka.servers:
        status = Broker(settings).status()
        if not status.running:
            return Finding("kafka", True, f"embedded, {status.note} (lakehouse broker start)")
    end_offsets(settings, list(topics()))
    return Finding("kafka", True, f"answers at {servers(settings)}")
