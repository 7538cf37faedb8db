"""Background servers on loopback: one of each kind per home; they keep running after the command that starts them."""

import os
import signal
import socket
import subprocess
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass

import psutil

from config.errors import LakehouseError
from config.files import read_port, write_whole
from config.home import make_home
from config.locks import exclusive
from config.settings import PREFIX, Settings

STOP_SECONDS = 30
INHERITED = {
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "LANG", "LC_ALL", "LC_CTYPE"),
    *("LD_LIBRARY_PATH", "JAVA_HOME", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS"),
}
"""The environment variables of a server; it outlives the command that starts it, so it gets no others."""


@dataclass(frozen=True)
class Status:
    """The state of a server."""

    running: bool
    pid: int | None
    port: int | None
    note: str


class Background:
    """A server of one home, identified by its process; its port is chosen once and kept."""

    name: str
    """The name of its folder, its log and its commands."""

    title: str
    """Its name in messages."""

    port_setting: str
    """The setting for its port."""

    seconds = 60
    """Start timeout."""

    start_hint = ""
    """An additional hint if it does not start."""

    def __init__(self, settings: Settings) -> None:
        """Store all of the server's state in the home."""
        self.settings = settings
        self.folder = settings.home / self.name
        self.log = settings.home / "logs" / f"{self.name}.log"
        self.output = self.log
        self._pid_file = self.folder / "pid"
        self._port_file = self.folder / "port"

    @property
    def configured_port(self) -> int | None:
        """Return the configured port, if any."""
        section, _, key = self.port_setting.partition(".")
        port: int | None = getattr(getattr(self.settings, section), key)
        return port

    def prepare(self, port: int) -> None:
        """Write the files that it reads at start."""

    def command(self, port: int) -> list[str]:
        """Return the command that serves on a port; it contains the folder, which identifies the process."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        """Return additional environment variables."""
        return {}

    def status(self) -> Status:
        """Return the state of the process that the pid file names."""
        port = read_port(self._port_file)
        recorded = self._pid_file.read_text().strip() if self._pid_file.exists() else ""
        if not recorded.isdigit():  # a start that was killed may leave the file empty
            return Status(False, None, port, "not running")
        pid = int(recorded)
        if not self._is_ours(pid):
            return Status(False, pid, port, f"not running: process {pid} has ended; its log: {self.log}")
        return Status(True, pid, port, f"running as process {pid}")

    def start(self) -> Status:
        """Start the server unless it is running, and wait until it answers."""
        make_home(self.settings)
        with self._alone():
            if not self.status().running:
                self._launch(self._port())
        return self.status()

    def stop(self) -> Status:
        """Stop the server cleanly; its data stays."""
        status = self.status()
        if status.running and status.pid:
            for number in (signal.SIGTERM, signal.SIGKILL):
                os.kill(status.pid, number)
                if self._ends(status.pid):
                    break
        self._pid_file.unlink(missing_ok=True)
        return status

    def port_is_taken(self) -> bool:
        """Return whether another program uses the configured port."""
        return self.configured_port is not None and not self.status().running and answers(self.configured_port)

    def _launch(self, port: int) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.prepare(port)
        with self.output.open("ab") as output:
            process = subprocess.Popen(
                self.command(port),
                env=_inherited() | self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # survives the end of the command and its Ctrl-C
            )
        write_whole(self._pid_file, str(process.pid))
        self._wait_until_ready(process, port)

    def _wait_until_ready(self, process: subprocess.Popen[bytes], port: int) -> None:
        deadline = time.monotonic() + self.seconds
        while time.monotonic() < deadline:
            if process.poll() is not None:
                self._pid_file.unlink(missing_ok=True)
                raise LakehouseError(
                    f"{self.title} stopped while starting (exit code {process.returncode}).\n{self._last_errors()}",
                    f"Its log: {self.log}{self.start_hint}",
                )
            if answers(port):
                return
            time.sleep(0.1)
        raise LakehouseError(f"{self.title} did not answer within {self.seconds} s.", f"Its log: {self.log}")

    def _last_errors(self) -> str:
        files = [file for file in dict.fromkeys((self.log, self.output)) if file.exists()]
        lines = [line for file in files for line in file.read_text(errors="replace").splitlines()]
        errors = [line for line in lines if " ERROR " in line or " FATAL " in line or "Exception" in line]
        return "\n".join((errors or lines)[-3:])

    def _port(self) -> int:
        """Choose the configured port, the previous one or a free one, and store it."""
        if self.port_is_taken():
            variable = PREFIX + self.port_setting.upper().replace(".", "__")
            raise LakehouseError(
                f"Port {self.configured_port}, configured for {self.name}, is taken by another program.",
                f"Stop that program, or choose another port: {variable}, or {self.port_setting} in the settings.",
            )
        port = self.configured_port or still_free(read_port(self._port_file))
        write_whole(self._port_file, str(port))
        return port

    def _is_ours(self, pid: int) -> bool:
        """Return whether the process is our server, not another program that got the same process id later."""
        return str(self.folder) in command_line(pid)

    def _ends(self, pid: int) -> bool:
        deadline = time.monotonic() + STOP_SECONDS
        while time.monotonic() < deadline:
            reap(pid)
            if not self._is_ours(pid):
                return True
            time.sleep(0.1)
        return False

    def _alone(self) -> AbstractContextManager[None]:
        return exclusive(self.folder / "lock")


def _inherited() -> dict[str, str]:
    """Return the variables that a server may have: no setting, hence no password, and nothing else that is secret."""
    return {name: value for name, value in os.environ.items() if name in INHERITED}


def answers(port: int) -> bool:
    """Return whether a program accepts connections on a local port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def still_free(port: int | None) -> int:
    """Return `port` if it is free, otherwise another one: two homes may have stored the same port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port or 0))
        except OSError:
            probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def command_line(pid: int) -> str:
    """Return the command line of a process; empty if it has ended or is another user's."""
    try:
        return " ".join(psutil.Process(pid).cmdline())
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return ""


def reap(pid: int) -> None:
    """Reap a child process that has ended: it would stay a zombie as long as this process lives."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return
