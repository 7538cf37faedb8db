"""Doctor: it says that all is well only when it is, and otherwise how to mend it."""

import shutil
import socket
from collections import namedtuple
from pathlib import Path

import pytest
from rich.console import Console

from config.errors import LakehouseError
from config.rules import all_rules
from config.settings import Settings
from local.broker import Broker
from operations.doctor import examine

Usage = namedtuple("Usage", "total used free")


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine large enough, whatever the tests run on."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(100 * 2**30, 50 * 2**30, 50 * 2**30))
    monkeypatch.setattr("operations.doctor.MEMORY_GIB", 0)


@pytest.fixture
def jars_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The jars' sums take a second to compute: once is enough."""
    monkeypatch.setattr("operations.doctor.verify", lambda settings: 86)


def test_all_is_well(settings: Settings, broker: Broker, console: Console) -> None:
    code = examine(console)
    told = console.export_text()
    assert code == 0, told
    for what in ("configuration", "python", "java", "jars", "memory", "disk", "home", "declarations", "ports", "kafka"):
        assert f"✓ {what}" in told
    assert f"127.0.0.1:{broker.status().port}" in told
    assert "✗" not in told


def test_a_broker_that_does_not_run_is_no_fault(fresh_home: Settings, console: Console, jars_known: None) -> None:
    assert examine(console) == 0
    assert "lakehouse broker start" in console.export_text()


def test_a_port_that_another_program_has_is_told(
    fresh_home: Settings, console: Console, jars_known: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        monkeypatch.setenv("LAKEHOUSE_KAFKA__PORT", str(port))
        assert examine(console) == 1
    told = console.export_text()
    assert "✗ ports" in told
    assert f"Port {port} is taken by another program" in told


def test_a_broken_rule_file_is_told_with_its_place(
    fresh_home: Settings, console: Console, jars_known: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "silver.clicks.yaml"
    file.write_text("- name: a\n  colum: quantity\n")
    monkeypatch.setattr("operations.doctor.all_rules", lambda: all_rules(tmp_path))
    assert examine(console) == 1
    told = console.export_text()
    assert "✗ declarations" in told
    assert f"{file}, line 2: unknown key 'colum': did you mean 'column'?" in told
    assert f"→ Mend {file}." in told


def test_too_little_disk_is_told_with_the_way_out(
    fresh_home: Settings, console: Console, jars_known: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(2**40, 2**40, 2**30))
    assert examine(console) == 1
    told = console.export_text()
    assert "✗ disk           1.0 GiB free" in told
    assert "LAKEHOUSE_HOME" in told
    assert told.count("✗") == 1


def test_a_mistake_in_the_settings_is_told_word_for_word(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_SPARK__MEMORY", "2 gigs")
    assert examine(console) == 1
    told = console.export_text()
    assert "✗ configuration" in told
    assert "LAKEHOUSE_SPARK__MEMORY" in told
    assert r"^\d+[mg]$" in told


def test_missing_jars_are_told_with_the_command_that_fetches_them(
    fresh_home: Settings, console: Console, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEHOUSE_CACHE", str(tmp_path / "empty"))
    assert examine(console) == 1
    told = console.export_text()
    assert "✗ jars" in told
    assert "make setup" in told


def test_a_log_that_does_not_answer_is_a_fault(
    fresh_home: Settings, console: Console, jars_known: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(settings: Settings, names: list[str]) -> None:
        raise LakehouseError("Kafka at one.example:9092 does not answer", "Check kafka.servers.")

    monkeypatch.setenv("LAKEHOUSE_KAFKA__SERVERS", "one.example:9092")
    monkeypatch.setattr("operations.doctor.end_offsets", unreachable)
    assert examine(console) == 1
    assert "→ Check kafka.servers." in console.export_text()
