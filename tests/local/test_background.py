"""Background servers and what a command writes: nothing of it is for others."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from payments import until

from config.settings import ROOT, Settings
from local.background import Background

SERVER = """
import json, os, pathlib, socket, sys
pathlib.Path(sys.argv[1], "environ.json").write_text(json.dumps(dict(os.environ)))
with socket.create_server(("127.0.0.1", int(sys.argv[2]))) as server:
    while True:
        server.accept()[0].close()
"""


class Echo(Background):
    """A server that writes down its environment."""

    name = "echo"
    title = "The echo"
    port_setting = "payment_api.port"

    def command(self, port: int) -> list[str]:
        return [sys.executable, "-c", SERVER, str(self.folder), str(port)]

    def environment(self) -> dict[str, str]:
        return {"SPARK_CONF_DIR": "conf"}


def test_a_server_gets_a_list_of_variables_and_no_secret(fresh_home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = ("LAKEHOUSE_KAFKA__PASSWORD", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN")
    for name in secrets:
        monkeypatch.setenv(name, "hunter2")
    server = Echo(fresh_home)
    try:
        server.start()
    finally:
        server.stop()
    environ = json.loads((server.folder / "environ.json").read_text())
    assert "hunter2" not in environ.values()
    assert environ["PATH"] == os.environ["PATH"]
    assert environ["SPARK_CONF_DIR"] == "conf"


def test_what_a_command_writes_is_for_its_owner_only(fresh_home: Settings) -> None:
    command = [sys.executable, "-m", "lakehouse", "payment-api"]
    serving = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, umask=0o022)
    try:
        until((fresh_home.home / "payment-api" / "address.json").exists)
    finally:
        serving.send_signal(signal.SIGTERM)
        serving.communicate(timeout=300)
    written = [fresh_home.home, *fresh_home.home.rglob("*")]
    assert len(written) > 4
    assert [each.relative_to(Path(fresh_home.home)) for each in written if each.stat().st_mode & 0o077] == []
