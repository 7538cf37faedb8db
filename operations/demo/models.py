"""The demo's part on what people read: dbt builds it, and its documents tell what each column means."""

import os
import re
import subprocess
import sys

from rich.console import Console

from config.settings import ROOT, Settings
from local.catalog import Catalog

COLOUR = re.compile(r"\x1b\[[\d;]*m")
SECONDS_OF_DAY = re.compile(r"^[\d:]+ +")


def show_models(console: Console, settings: Settings) -> bool:
    """Let dbt build every model and write its documents; say whether it could."""
    try:
        built = _dbt(console, settings, "run") and _dbt(console, settings, "docs", "generate", "--static")
    finally:
        Catalog(settings).stop()
    return built


def _dbt(console: Console, settings: Settings, *arguments: str) -> bool:
    """Run dbt as a user does, in a process of its own; show where it is, and how it ended."""
    command = [sys.executable, "-m", "lakehouse", "dbt", *arguments]
    environ = os.environ | {"LAKEHOUSE_HOME": str(settings.home)}
    said = [""]
    with (
        console.status(f"dbt {' '.join(arguments)} …") as status,
        subprocess.Popen(
            command, cwd=ROOT, env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process,
    ):
        for line in process.stdout or ():
            if told := SECONDS_OF_DAY.sub("", COLOUR.sub("", line)).strip():
                said.append(told)
                status.update(f"dbt: {told[: console.width - 10]}")
    if process.returncode:
        console.print("\n".join(said[-20:]), style="red", markup=False)
    else:
        console.print(f"dbt {' '.join(arguments)}: {said[-1]}", markup=False)
    return process.returncode == 0
