"""Guides: each is followed step by step, in a copy of the project, as a reader would."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from config.settings import ROOT, Settings


class Reader:
    """Follows a guide in a copy of the project: runs what it says to run, edits what it says to edit."""

    def __init__(self, copy: Path, home: Path) -> None:
        files = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True, stdout=-1, check=True
        )
        for name in files.stdout.splitlines():
            if (ROOT / name).exists():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, copy / name)
        self.copy = copy
        self.environ = os.environ | {
            "LAKEHOUSE_HOME": str(home),
            "PYTHONPATH": str(copy),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }

    def follow(self, guide: str) -> str:
        """Do all that the guide says, and give what was printed."""
        said = []
        text = (self.copy / "docs" / "guides" / guide).read_text()
        for kind, block in re.findall(r"^```(sh|diff)\n(.*?)^```$", text, re.M | re.S):
            said.append(self._apply(block) if kind == "diff" else self.run(block))
        return "".join(said)

    def run(self, script: str) -> str:
        """Run a block of commands; the first that fails ends it."""
        return self._done(["bash", "-euo", "pipefail", "-c", script], None)

    def _apply(self, diff: str) -> str:
        return self._done(["git", "apply"], diff)

    def _done(self, command: list[str], given: str | None) -> str:
        done = subprocess.run(
            command, cwd=self.copy, env=self.environ, input=given, text=True, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def reader(tmp_path: Path, settings: Settings):
    reader = Reader(tmp_path / "copy", tmp_path / "home")
    yield reader
    reader.run("lakehouse broker stop")


def test_a_field_is_added_while_old_data_stays_readable(reader: Reader) -> None:
    said = reader.follow("add-a-field.md")
    assert re.search(r"guide-new\W+EUR", said)
    assert re.search(r"guide-old\W+None", said)
    assert re.search(r"guide-wrong\W+currency_code", said)
    (old,) = re.findall(r"None\W+([\d,]+)", said.rpartition("currency_code")[2])
    assert int(old.replace(",", "")) > 20
    assert "✓" in reader.run("lakehouse check ledger")
