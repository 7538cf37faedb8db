"""Doctor: it passes only if every check passes, and otherwise names the fix."""

import re
import shutil
import socket
import subprocess
from collections import namedtuple
from pathlib import Path

import pytest

from config.errors import LakehouseError
from config.home import make_home
from config.rules import all_rules
from config.settings import Settings
from config.terminal import Terminal
from local.broker import Broker
from operations.doctor import run_checks

Usage = namedtuple("Usage", "total used free")


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that the machine is large enough."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(100 * 2**30, 50 * 2**30, 50 * 2**30))
    monkeypatch.setattr("operations.doctor.MEMORY_GIB", 0)


@pytest.fixture
def jars_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the checksums of the jars, which take a second; one test computes them."""
    monkeypatch.setattr("operations.doctor.verify", lambda settings: 86)


def test_all_is_well(settings: Settings, broker: Broker, console: Terminal) -> None:
    code = run_checks(console)
    output = console.export_text()
    assert code == 0, output
    for what in ("configuration", "python", "java", "jars", "memory", "disk", "home", "declarations", "ports", "kafka"):
        assert f"✓ {what}" in output
    assert f"127.0.0.1:{broker.status().port}" in output
    assert "✗" not in output


def test_a_broker_that_does_not_run_is_no_fault(fresh_home: Settings, console: Terminal, jars_known: None) -> None:
    assert run_checks(console) == 0
    assert "lakehouse broker start" in console.export_text()


def test_a_port_that_another_program_has_is_named(
    fresh_home: Settings, console: Terminal, jars_known: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        monkeypatch.setenv("LAKEHOUSE_KAFKA__PORT", str(port))
        assert run_checks(console) == 1
    output = console.export_text()
    assert "✗ ports" in output
    assert f"Port {port} is taken by another program" in output


def test_a_broken_rule_file_is_named_with_its_line(
    fresh_home: Settings, console: Terminal, jars_known: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "silver.clicks.yaml"
    file.write_text("- name: a\n  colum: quantity\n")
    monkeypatch.setattr("operations.doctor.all_rules", lambda: all_rules(tmp_path))
    assert run_checks(console) == 1
    output = console.export_text()
    assert "✗ declarations" in output
    assert f"{file}, line 2: unknown key 'colum': did you mean 'column'?" in output
    assert f"→ Correct {file}." in output


def test_too_little_disk_is_reported_with_a_hint(
    fresh_home: Settings, console: Terminal, jars_known: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(2**40, 2**40, 2**30))
    assert run_checks(console) == 1
    output = console.export_text()
    assert "✗ disk           1.0 GiB free" in output
    assert "LAKEHOUSE_HOME" in output
    assert output.count("✗") == 1


def test_a_home_that_others_can_read_is_a_fault_with_the_command_that_closes_it(
    fresh_home: Settings, console: Terminal, jars_known: None
) -> None:
    make_home(fresh_home)  # with something in it: an empty folder becomes ours
    fresh_home.home.chmod(0o755)
    assert run_checks(console) == 1
    output = console.export_text()
    assert f"✗ home           {fresh_home.home} can be read by others (755)" in output
    (command,) = re.findall("→ (chmod .*)", output)
    subprocess.run(["sh", "-c", command], check=True)
    assert run_checks(console) == 0
    assert "✓ home" in console.export_text()


def test_a_mistake_in_the_settings_is_quoted(console: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_SPARK__MEMORY", "2 gigs")
    assert run_checks(console) == 1
    output = console.export_text()
    assert "✗ configuration" in output
    assert "LAKEHOUSE_SPARK__MEMORY" in output
    assert r"^\d+[mg]$" in output


def test_missing_jars_are_named_with_the_command_that_fetches_them(
    fresh_home: Settings, console: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEHOUSE_CACHE", str(tmp_path / "empty"))
    assert run_checks(console) == 1
    output = console.export_text()
    assert "✗ jars" in output
    assert "make setup" in output


def test_a_log_that_does_not_answer_is_a_fault(
    fresh_home: Settings, console: Terminal, jars_known: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(settings: Settings, names: list[str]) -> None:
        raise LakehouseError("Kafka at one.example:9092 does not answer", "Check kafka.servers.")

    monkeypatch.setenv("LAKEHOUSE_KAFKA__SERVERS", "one.example:9092")
    monkeypatch.setattr("operations.doctor.end_offsets", unreachable)
    assert run_checks(console) == 1
    assert "→ Check kafka.servers." in console.export_text()
