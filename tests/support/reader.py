"""A reader of the documents: follows a page step by step in a copy of the project, in a home of its own."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from payments import until

from config.settings import ROOT

SERVER = "tests/support/command_server.py"


class Reader:
    """Runs what a page says to run, and edits what it says to edit.

    one_process: all commands between two edits run in one process, so that Spark starts once for all of them. A reader
    starts a process for each; the long form of a guide does too.
    """

    def __init__(self, folder: Path, *, one_process: bool) -> None:
        self.copy, self.folder = folder / "copy", folder
        files = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True, stdout=-1, check=True
        )
        for name in files.stdout.splitlines():
            if (ROOT / name).is_file():
                (self.copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, self.copy / name)
        self._commit()
        self.environ = os.environ | {
            "LAKEHOUSE_HOME": str(folder / "home"),
            "PYTHONPATH": str(self.copy),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": "200",
        }
        # Not in the folder of the test: the path of a socket may have a hundred characters.
        self._socket = Path(tempfile.mkdtemp()) / "commands"
        self._server: subprocess.Popen[bytes] | None = None
        self._one_process = one_process
        if one_process:
            self._put_in_place_of_lakehouse()

    def _commit(self) -> None:
        """Make the copy a repository with one commit, as a clone or a new project is."""
        who = ("-c", "user.name=Reader", "-c", "user.email=reader@example.org", "-c", "commit.gpgsign=false")
        for words in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "--message", "The project")):
            subprocess.run(["git", *who, *words], cwd=self.copy, check=True)

    def follow(self, page: str) -> list[str]:
        """Do all that a page says, and give what was printed, block by block."""
        blocks = re.findall(r"^```(sh|diff)\n(.*?)^```$", (self.copy / "docs" / page).read_text(), re.M | re.S)
        return [self._apply(block) if kind == "diff" else self.run(block) for kind, block in blocks]

    def run(self, script: str) -> str:
        """Run a block of commands; the first that fails ends it."""
        if self._one_process and self._server is None:
            self._serve()
        return self._done(["bash", "-euo", "pipefail", "-c", script], None)

    def close(self) -> None:
        """Stop what runs for this reader."""
        self.run("lakehouse broker stop")
        self._end()
        self._socket.parent.rmdir()

    def _apply(self, diff: str) -> str:
        self._end()  # what runs has read the file that changes
        return self._done(["git", "apply"], diff)

    def _done(self, command: list[str], given: str | None) -> str:
        # A file, not a pipe: a JVM that a command leaves behind would hold the pipe open.
        with tempfile.TemporaryFile("w+") as said:
            done = subprocess.run(
                command,
                cwd=self.copy,
                env=self.environ,
                input=given,
                text=True,
                stdout=said,
                stderr=subprocess.STDOUT,  # as a terminal shows it
                check=False,
            )
            said.seek(0)
            text = said.read()
        assert done.returncode == 0, text
        return text

    def _put_in_place_of_lakehouse(self) -> None:
        command = self.folder / "bin" / "lakehouse"
        command.parent.mkdir()
        words = shlex.join([sys.executable, str(self.copy / SERVER), "run", str(self._socket)])
        command.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        command.chmod(0o755)
        self.environ["PATH"] = f"{command.parent}{os.pathsep}{self.environ['PATH']}"

    def _serve(self) -> None:
        server = subprocess.Popen(
            [sys.executable, str(self.copy / SERVER), str(self._socket)], cwd=self.copy, env=self.environ
        )
        self._server = server
        until(lambda: self._socket.exists() or server.poll() is not None, seconds=120)
        assert server.poll() is None

    def _end(self) -> None:
        if self._server:
            self._server.terminate()
            self._server.wait()
            self._socket.unlink()
            self._server = None
