"""The home: the folder of all runtime state, for its owner only, and marked as ours before anything removes it."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from config.errors import LakehouseError

if TYPE_CHECKING:
    from config.settings import Settings

MARKER = ".lakehouse-home"
"""The file in a home without which nothing removes it; config/setup.sh looks for it too."""

NOTE = "This folder is the home of a lakehouse: `make clean` removes it with everything in it.\n"


BREAKS_PATHS = ',:;%#*?[]{}\\"`$&|<>'
"""Characters that are refused in the path of a home, because some part of the system reads them as something else:

Kafka (a list of folders, escapes in its settings), Java (a list of folders, a wildcard, its launcher's variables),
Spark (patterns of files, addresses), SQL (backquotes), XML and shells.
"""


def check_path(home: Path) -> None:
    """Refuse a home whose path some part of the system would take for another one."""
    breaking = sorted({each for each in str(home) if each in BREAKS_PATHS or not each.isprintable()})
    if breaking:
        raise LakehouseError(
            f"The home {str(home)!r} contains {' '.join(map(repr, breaking))}; Kafka, Java or Spark would "
            "read it as a different path.",
            "Set LAKEHOUSE_HOME to a path without: " + " ".join(BREAKS_PATHS) + " and control characters.",
        )


def make_home(settings: "Settings") -> None:
    """Create the home unless it exists; mark it if it is empty, because then all that will be in it is ours."""
    home = settings.home
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not any(home.iterdir()):
        home.chmod(0o700)
        (home / MARKER).write_text(NOTE)


def empty_home(settings: "Settings") -> None:
    """Remove a home with everything in it, if it is one."""
    home = settings.home
    if home.is_dir() and any(home.iterdir()) and not (home / MARKER).is_file():
        raise LakehouseError(
            f"{home} is not empty and has no file {MARKER}: it is not removed, because it may not be ours.",
            f"Move it away; or, if everything in it may be removed: touch '{home / MARKER}'",
        )
    shutil.rmtree(home, ignore_errors=True)


def open_to_others(settings: "Settings") -> str:
    """Return the permissions by which others can read the home, like 755; empty if they cannot."""
    mode = settings.home.stat().st_mode & 0o777
    return f"{mode:o}" if mode & 0o077 else ""
