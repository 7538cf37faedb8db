"""The embedded broker: one KRaft Kafka from its jars, on loopback, in the background."""

import fcntl
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from config.errors import LakehouseError
from config.jars import jars
from config.java import find_java
from config.kafka import ensure_topics
from config.rendering import render
from config.settings import ROOT, Settings

START_SECONDS = 60
STOP_SECONDS = 30
CLUSTER_ID = "bGFrZWhvdXNlLWxvY2FsMQ"  # 16 bytes, base64: any fixed value does on one node


@dataclass(frozen=True)
class Status:
    """What is known of the embedded broker."""

    running: bool
    pid: int | None
    port: int | None
    note: str


class Broker:
    """The embedded broker of one home."""

    def __init__(self, settings: Settings) -> None:
        """Keep all of the broker's state under the home."""
        self.settings = settings
        self.folder = settings.home / "broker"
        self.data = self.folder / "data"
        self.log = settings.home / "logs" / "broker.log"
        self.output = settings.home / "logs" / "broker.out"
        self._pid_file = self.folder / "pid"
        self._ports_file = self.folder / "ports.json"
        self._properties = self.folder / "server.properties"

    def status(self) -> Status:
        """Look at the process behind the pid file, never only at the file."""
        ports = json.loads(self._ports_file.read_text()) if self._ports_file.exists() else {}
        recorded = self._pid_file.read_text().strip() if self._pid_file.exists() else ""
        if not recorded.isdigit():  # a killed start may leave the file empty
            return Status(False, None, ports.get("port"), "not running")
        pid = int(recorded)
        if not self._is_ours(pid):
            return Status(False, pid, ports.get("port"), f"not running: process {pid} is gone; its log: {self.log}")
        return Status(True, pid, ports.get("port"), f"running as process {pid}")

    def start(self, *, reformat: bool = False) -> Status:
        """Start the broker unless it runs, wait until it answers, and create the declared topics."""
        self._refuse_external()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self._lock():
            if reformat and self.status().running:
                raise LakehouseError("The broker is running: its data cannot be set aside.", "lakehouse broker stop")
            if not self.status().running:
                self._pid_file.unlink(missing_ok=True)
                if reformat and self.data.exists():
                    self.data.rename(self.folder / f"data.set-aside-{datetime.now(UTC):%Y%m%dT%H%M%S}")
                self._launch(self._ports())
            ensure_topics(self.settings)
        return self.status()

    def stop(self) -> Status:
        """Shut the broker down cleanly; its data stays."""
        self._refuse_external()
        status = self.status()
        if status.running and status.pid:
            os.kill(status.pid, signal.SIGTERM)
            if not self._wait_for_end(status.pid, STOP_SECONDS):
                os.kill(status.pid, signal.SIGKILL)
                self._wait_for_end(status.pid, STOP_SECONDS)
        self._pid_file.unlink(missing_ok=True)
        return status

    def _launch(self, ports: dict[str, int]) -> None:
        java = str(find_java().home / "bin" / "java")
        values = {**ports, "data": self.data, "max_record_bytes": self.settings.kafka.max_record_bytes}
        render(ROOT / "config" / "broker.properties", self._properties, values)
        logging = self.folder / "log4j2.properties"
        render(ROOT / "config" / "broker-log4j2.properties", logging, {"logs": self.log.parent})
        classpath = os.pathsep.join(str(jar) for jar in jars("broker", self.settings))
        base = [java, f"-Xmx{self.settings.kafka.heap}", f"-Dlog4j2.configurationFile={logging}", "-cp", classpath]
        if not (self.data / "meta.properties").exists():
            self._format(base)
        with self.output.open("ab") as output:
            process = subprocess.Popen(
                [*base, "kafka.Kafka", str(self._properties)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # it outlives the command, and the command's Ctrl-C
            )
        self._pid_file.write_text(str(process.pid))
        self._wait_until_ready(process, ports["port"])

    def _format(self, base: list[str]) -> None:
        arguments = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self._properties)]
        done = subprocess.run([*base, *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            raise LakehouseError(
                f"The broker's data folder {self.data} cannot be prepared:\n{done.stdout}{done.stderr}".rstrip(),
                "lakehouse broker start --reformat   (the old folder is set aside, not deleted)",
            )

    def _wait_until_ready(self, process: subprocess.Popen[bytes], port: int) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if process.poll() is not None:
                self._pid_file.unlink(missing_ok=True)
                raise LakehouseError(
                    f"The broker stopped while starting (exit code {process.returncode}).\n{self._last_words()}",
                    f"Its log: {self.log}\nIf the data folder is broken: lakehouse broker start --reformat   "
                    "(the old folder is set aside, not deleted; bronze.events keeps what was landed)",
                )
            if _accepts_connections(port):
                return
            time.sleep(0.1)
        raise LakehouseError(f"The broker did not answer within {START_SECONDS} s.", f"Its log: {self.log}")

    def _last_words(self) -> str:
        lines = [line for file in (self.log, self.output) if file.exists() for line in file.read_text().splitlines()]
        errors = [line for line in lines if " ERROR " in line or " FATAL " in line or "Exception" in line]
        return "\n".join((errors or lines)[-3:])

    def _ports(self) -> dict[str, int]:
        """Take the configured port, or the remembered ones, or free ones; remember them."""
        ports = json.loads(self._ports_file.read_text()) if self._ports_file.exists() else {}
        configured = self.settings.kafka.port
        if self.port_is_taken():
            raise LakehouseError(
                f"Port {configured}, configured for the broker, is taken by another program.",
                "Stop that program, or choose another port: LAKEHOUSE_KAFKA__PORT, or kafka.port in the settings.",
            )
        chosen = {
            "port": configured or _still_free(ports.get("port")),
            "controller_port": _still_free(ports.get("controller_port")),
        }
        self._ports_file.write_text(json.dumps(chosen))
        return chosen

    def port_is_taken(self) -> bool:
        """Tell whether another program has the port configured for the broker; one that is chosen is always free."""
        port = self.settings.kafka.port
        return port is not None and not self.status().running and _accepts_connections(port)

    def _refuse_external(self) -> None:
        if self.settings.kafka.servers:
            raise LakehouseError(
                f"Settings name an external Kafka ({self.settings.kafka.servers}): there is no broker of ours here.",
                "Empty kafka.servers to use the embedded one.",
            )

    def _is_ours(self, pid: int) -> bool:
        """Tell our broker from another program that was given the same process id later."""
        return str(self._properties) in _command_line(pid)

    def _wait_for_end(self, pid: int, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            _reap(pid)
            if not self._is_ours(pid):
                return True
            time.sleep(0.1)
        return False

    @contextmanager
    def _lock(self) -> Iterator[None]:
        with (self.folder / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _accepts_connections(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _still_free(port: int | None) -> int:
    """Keep a remembered port while it is free; two homes may have remembered the same one."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port or 0))
        except OSError:
            probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _command_line(pid: int) -> str:
    file = Path(f"/proc/{pid}/cmdline")
    if file.exists():
        return file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
    if Path("/proc/self").exists():
        return ""
    done = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return done.stdout


def _reap(pid: int) -> None:
    """Collect a child that ended, so that it does not linger as a zombie where the starter is still alive."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return
