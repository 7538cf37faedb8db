"""A reader of the documents: follows a page step by step in a copy of the project, in a home of its own."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from config.settings import ROOT


class Reader:
    """Runs what a page says to run, and edits what it says to edit."""

    def __init__(self, folder: Path) -> None:
        self.copy = folder / "copy"
        files = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True, stdout=-1, check=True
        )
        for name in files.stdout.splitlines():
            if (ROOT / name).is_file():
                (self.copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, self.copy / name)
        self.environ = os.environ | {
            "LAKEHOUSE_HOME": str(folder / "home"),
            "PYTHONPATH": str(self.copy),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": "200",
        }

    def follow(self, page: str) -> list[str]:
        """Do all that a page says, and give what was printed, block by block."""
        blocks = re.findall(r"^```(sh|diff)\n(.*?)^```$", (self.copy / "docs" / page).read_text(), re.M | re.S)
        return [self._apply(block) if kind == "diff" else self.run(block) for kind, block in blocks]

    def run(self, script: str) -> str:
        """Run a block of commands; the first that fails ends it."""
        return self._done(["bash", "-euo", "pipefail", "-c", script], None)

    def _apply(self, diff: str) -> str:
        return self._done(["git", "apply"], diff)

    def _done(self, command: list[str], given: str | None) -> str:
        done = subprocess.run(
            command,
            cwd=self.copy,
            env=self.environ,
            input=given,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,  # as a terminal shows it
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout
